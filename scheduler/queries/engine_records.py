"""The records of running work on this machine's disk against the rows of the tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scheduler import models
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.engines.base import ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Where folder and tables differ; keys are "replica-attempt"."""

    #: The folder belongs to another database.
    foreign: bool
    agreed: int
    #: Rows of started replicas of this engine without a record, and records without such a row.
    missing: tuple[str, ...]
    left: tuple[str, ...]


def compare(*, folder: Path) -> Compared:
    """Return how the local engine's records stand against the tables. Two queries."""
    owner = folder / "owner"
    uid = str(models.Cluster.objects.one().uid)
    rows = models.Replica.objects.filter(node__engine="local").exclude(phase=ReplicaPhase.ENDED)
    booked = {
        str(ReplicaKey(replica_id=pk, attempt=attempt)): phase
        for pk, attempt, phase in rows.values_list("pk", "attempt", "phase")
    }
    # What has only just been booked may not have been launched yet.
    started = {key for key, phase in booked.items() if phase == ReplicaPhase.RUNNING}
    records = folder / "engine" / "replicas"
    found = {one.name for one in records.iterdir()} if records.is_dir() else set()
    return Compared(
        foreign=owner.is_file() and owner.read_text() != uid,
        agreed=len(found & booked.keys()),
        missing=tuple(sorted(started - found)),
        left=tuple(sorted(found - booked.keys())),
    )
