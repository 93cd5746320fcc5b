"""Where replicas are, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.queries.decision_words import place_name
from scheduler.queries.pool_state import PoolState, ReplicaState


def places_of(state: PoolState, replicas: Iterable[ReplicaState]) -> list[str]:
    """Return each node on which these replicas hold devices, with the devices: "h100-03 GPU 2, 7"."""
    held = {device_id for replica in replicas for device_id, _mgpu in replica.holdings}
    found = []
    for node in state.nodes:
        indices = [device.index for device in node.devices if device.id in held]
        if indices:
            found.append(place_name(node.name, indices))
    return found
