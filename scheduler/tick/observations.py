"""What engines told at one look, and the key by which they know a replica."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from scheduler import models
from scheduler.engines.base import JoinedNode, Observation, ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """What all engines that answered know, by key."""

    taken_at: datetime
    #: Names of engines that answered; about the others nothing is known.
    answered: frozenset[str]
    by_key: dict[ReplicaKey, Observation] = field(default_factory=dict)
    #: The engine that each key was seen on.
    engine_of: dict[ReplicaKey, str] = field(default_factory=dict)
    #: Nodes of engines that answered, of which nothing is known now; and such as are gone for certain.
    silent: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    #: Machines that joined an engine's cluster by themselves, with the engine's name.
    joined: tuple[tuple[str, JoinedNode], ...] = ()

    def is_told_of(self, *, engine: str, node_name: str) -> bool:
        """Test whether what is not seen on a node is known not to run there."""
        return engine in self.answered and node_name not in self.silent


def key_of(replica: models.Replica) -> ReplicaKey:
    """Return the engine's key of a replica's row: one row is one start."""
    return ReplicaKey(replica_id=replica.pk, attempt=replica.attempt)
