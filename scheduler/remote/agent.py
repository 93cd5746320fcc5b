"""What runs on each node: one agent, which has the local engine of that machine and its sampler.

It holds no truth: a new agent on the same folder finds all replicas again. No Ray in here.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler.engines import leases, warden
from scheduler.engines.base import (
    Endpoint,
    EngineUnreachable,
    LaunchSpec,
    LogChunk,
    NodeInventory,
    Observation,
    Orphan,
    ProgressReport,
    ReplicaKey,
)
from scheduler.engines.claims import claim
from scheduler.engines.local import LocalEngine
from scheduler.engines.seat import Seat
from scheduler.telemetry.base import DeviceSample, ReplicaSample, SampleTarget
from scheduler.telemetry.registry import make_sampler

log = logging.getLogger(__name__)

RENEW_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What an agent needs to know of its machine. ``owner``: whose database its replicas belong to."""

    node_name: str
    host: str
    data_dir: str
    shared_dir: str
    virtual_devices: int
    lease_s: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What an agent tells when it is asked how things are."""

    observations: tuple[Observation, ...]
    inventory: NodeInventory


class NodeAgent:
    """The engine of one node, for callers on other machines. Its methods are the engine's."""

    def __init__(self, post: Post, *, in_touch: Callable[[], bool]) -> None:
        data_dir = Path(post.data_dir)
        claim(folder=data_dir, owner=post.owner)
        self._lease = str(data_dir / "lease")
        self._in_touch = in_touch
        self._lease_s = post.lease_s
        self._data_dir = data_dir
        self._renew()  # before the first look: supervisors of before are still at work
        self._ensure_warden()
        threading.Thread(target=self._keep_lease, name="lease", daemon=True).start()
        self._post = post
        self._engine = LocalEngine(
            data_dir=data_dir,
            virtual_devices=post.virtual_devices,
            seat=Seat(
                host=post.host,
                shared_dir=Path(post.shared_dir),
                lease=self._lease,
                lease_s=post.lease_s,
            ),
        )
        self._sampler = make_sampler("local")
        self._inventory = self._engine.inventory()

    def look(self) -> Look:
        """Return what runs here and what the machine has."""
        seen = self._engine.observe()
        own = tuple(replace(one, node_name=self._post.node_name) for one in seen)
        return Look(observations=own, inventory=self._inventory)

    def launch(self, spec: LaunchSpec) -> None:
        """Start the replica, once for each key ever. Nothing starts where no warden can be had."""
        try:
            self._ensure_warden()
        except OSError as error:
            raise EngineUnreachable(f"no warden on {self._post.node_name}: {error}") from error
        self._engine.launch(spec)

    def terminate(self, key: ReplicaKey, grace_s: int, reason: str) -> None:
        """SIGTERM to every process, SIGKILL after the grace period."""
        self._engine.terminate(key, grace_s=grace_s, reason=reason)

    def forget(self, key: ReplicaKey) -> None:
        """Drop an ended replica."""
        self._engine.forget(key)

    def has_log(self, key: ReplicaKey) -> bool:
        """Test whether output of the replica lies here."""
        return (Path(self._post.data_dir) / "engine" / "logs" / str(key)).exists()

    def read_log(self, key: ReplicaKey, offset: int | None, limit_bytes: int) -> LogChunk:
        """Return a piece of the replica's output."""
        return self._engine.read_log(key, offset=offset, limit_bytes=limit_bytes)

    def read_progress(self, key: ReplicaKey, after: int) -> tuple[ProgressReport, ...]:
        """Return what the replica reported on its output after report ``after``."""
        return self._engine.read_progress(key, after=after)

    def read_progress_of_all(
        self, wanted: tuple[tuple[ReplicaKey, int], ...]
    ) -> dict[ReplicaKey, tuple[ProgressReport, ...]]:
        """Return what each of these replicas reported after the report that is named with it."""
        return {key: self._engine.read_progress(key, after=after) for key, after in wanted}

    def delete_log(self, key: ReplicaKey) -> None:
        """Drop the output of a replica."""
        self._engine.delete_log(key)

    def delete_storage(self, storage_key: str) -> None:
        """Drop the directories of a workload that is no more."""
        self._engine.delete_storage(storage_key)

    def find_meeting_point(self) -> Endpoint:
        """Return where a gang can meet on this machine."""
        return self._engine.find_meeting_point(self._post.node_name)

    def orphans(self) -> tuple[Orphan, ...]:
        """Return live processes of this machine that belong to no known replica."""
        return tuple(
            replace(orphan, node_name=self._post.node_name) for orphan in self._engine.orphans()
        )

    def end_orphan(self, orphan: Orphan) -> None:
        """SIGKILL an orphan, if it still is the process that was listed."""
        self._engine.end_orphan(orphan)

    def sample(self, targets: tuple[SampleTarget, ...]) -> tuple[ReplicaSample, ...]:
        """Return one sample for each target. A stand-in device is a part of this machine's CPUs."""
        here = max(1, self._post.virtual_devices)
        return self._sampler.sample(tuple(replace(one, host_devices=here) for one in targets))

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return one sample for each real device of this machine."""
        return self._sampler.sample_devices()

    def _keep_lease(self) -> None:
        while True:
            time.sleep(RENEW_EVERY_S)
            self._renew()
            try:
                self._ensure_warden()
            except OSError:  # the next round tries again
                log.warning("agent.warden.not_started", exc_info=True)

    def _ensure_warden(self) -> None:
        warden.ensure(self._data_dir, lease=self._lease, lease_s=self._lease_s)

    def _renew(self) -> None:
        """Renew the lease if the head knows this node. Whatever goes wrong, the next try may succeed."""
        asked_at_s = leases.seconds_since_boot()  # before the question: the answer may be old
        try:
            if self._in_touch():
                leases.renew(self._lease, in_touch_at_s=asked_at_s)
        except Exception:
            log.warning("agent.lease.not_renewed", exc_info=True)


def read_post(*, host: str, lease_s: int, owner: str) -> Post:
    """Return the post of this machine, as ``manage.py join`` has put it into the environment."""
    return Post(
        node_name=os.environ["TIDEGATE_NODE_NAME"],
        host=host,
        data_dir=os.environ["TIDEGATE_NODE_DATA"],
        shared_dir=os.environ["TIDEGATE_NODE_SHARED"],
        virtual_devices=int(os.environ.get("TIDEGATE_NODE_VIRTUAL_DEVICES", "0")),
        lease_s=lease_s,
        owner=owner,
    )
