"""The day's trainings: in each chosen project so many wait at any time, and what has ended goes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import datetime

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, Kind, Phase
from scheduler.operations import demo_days, gateway_keys, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.operations.demonstration_data import DEMONSTRATIONS, Fill, training
from scheduler.operations.submissions import Submission

#: Passes of three seconds each that a training of the day takes: minutes, not hours.
EPOCHS = (25, 60, 40)
#: Ended ones that stay in view, the newest.
KEPT_IN_VIEW = 3


@dataclass(slots=True)
class Filling:
    """Hands in trainings wherever none waits."""

    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def refill(self, *, now: datetime) -> None:
        """See that each chosen project has as many that wait or run as it should; drop the ended."""
        work = demo_days.find_left_work()
        ended = [each for each in work if Phase(each.phase) in END_PHASES]
        for workload in ended[:-KEPT_IN_VIEW]:
            workloads.delete_workload(workload_id=workload.pk, authority=SYSTEM, now=now)
        pool = models.NodePool.objects.filter(scratch=False).order_by("id").first()
        if pool is None:
            return
        alive = [each for each in work if Phase(each.phase) not in END_PHASES]
        names = {each.name for each in work}
        for project, fill in _chosen():
            here = [each for each in alive if each.project_id == project.pk]
            for _ in range(fill.most - len(here)):
                self._submit(project, pool, fill, names, now)

    def _submit(
        self,
        project: models.Project,
        pool: models.NodePool,
        fill: Fill,
        names: set[str],
        now: datetime,
    ) -> None:
        number = next(n for n in self._numbers if f"night-{n}" not in names)
        workloads.submit_workload(
            project_id=project.pk,
            pool_id=pool.pk,
            submission=Submission(
                name=f"night-{number}",
                kind=Kind.TRAINING,
                command=training(epochs=EPOCHS[number % len(EPOCHS)], seed=number),
                request_mgpu=fill.mgpu,
                env={demo_days.MARK: "1"},
            ),
            authority=SYSTEM,
            now=now,
        )


def clear(*, now: datetime) -> None:
    """Take away what a day has made: its trainings and its keys."""
    for workload in demo_days.find_left_work():
        workloads.delete_workload(workload_id=workload.pk, authority=SYSTEM, now=now)
    for key in demo_days.find_left_keys():
        gateway_keys.revoke_key(key_id=key.pk, authority=SYSTEM, now=now)


def _chosen() -> list[tuple[models.Project, Fill]]:
    """Return the projects that fill up, of the demonstration that is laid out."""
    projects = {
        project.name: project
        for project in models.Project.objects.filter(department__scratch=False)
    }
    nodes = set(models.Node.objects.filter(pool__scratch=False).values_list("name", flat=True))
    for demonstration in DEMONSTRATIONS.values():
        if {shape.name for shape in demonstration.nodes} <= nodes:
            fills = (fill for fill in demonstration.fills if fill.project in projects)
            return [(projects[fill.project], fill) for fill in fills]
    return []
