"""One service as the tick sees it: its row, its living replicas, what gateways said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler import models
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.telemetry import demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One service with its living replicas and what gateways said of it."""

    service: models.InferenceService
    workload: models.Workload
    alive: Sequence[models.Replica]
    told: demand.Demand
    now: datetime

    @property
    def counts(self) -> demand.Counts:
        return self.told.services.get(self.workload.pk, demand.Counts())

    @property
    def staying(self) -> list[models.Replica]:
        """Return the replicas that start or answer and are not on their way out."""
        return [
            replica
            for replica in self.alive
            if replica.phase != ReplicaPhase.STOPPING
            and str(replica.pk) not in self.service.draining
        ]

    @property
    def lasting(self) -> list[models.Replica]:
        """Return those of them that are not on a node that is emptied."""
        return [replica for replica in self.staying if not replica.node.draining]

    @property
    def ready(self) -> int:
        return sum(replica.phase == ReplicaPhase.RUNNING for replica in self.staying)


def note_event(
    scene: Scene,
    event_code: str,
    params: Mapping[str, object],
    record: models.Decision | None = None,
) -> None:
    models.WorkloadEvent.objects.create(
        workload=scene.workload,
        at=scene.now,
        code=event_code,
        params=dict(params),
        decision=record,
    )
