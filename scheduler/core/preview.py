"""Previews: what a cycle would do if something were changed. The core decides; nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduler.core.cycle import run
from scheduler.core.load import open_session
from scheduler.core.plan import Evict, Holds, Plan, Start
from scheduler.core.snapshot import Policy, QueueQuota, Replica, Snapshot, Workload
from scheduler.core.vocabulary import Level, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One workload that would be interrupted, by which rule, and for whom."""

    workload_id: int
    served_id: int | None
    rule: Rule
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What would come of a cycle, evictions done; ids in the order of the decisions."""

    #: Workloads that would start and run at the end.
    starts: tuple[int, ...]
    #: Workloads that run now and would be interrupted at some point.
    interruptions: tuple[Interruption, ...]
    #: Why each workload that would wait at the end waits.
    holds: Holds
    #: Replicas at the end, by workload id; those with none are left out.
    replicas: dict[int, int]
    plan: Plan

    def runs(self, workload_id: int) -> bool:
        """Test whether the workload would run at the end."""
        return workload_id in self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a change alone would do: two previews compared."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    interruptions: tuple[Interruption, ...]


def preview(*, snapshot: Snapshot, policy: Policy, now_us: int) -> Preview:
    """Return what a cycle on ``snapshot`` would do, evictions complete at once."""
    session = open_session(snapshot, policy=policy, now_us=now_us, at_once=True)
    plan = run(session)
    replicas = {job.workload.id: len(job.held) for job in session.jobs.values() if job.held}
    return Preview(
        starts=_starts(plan, replicas),
        interruptions=_interruptions(plan, snapshot),
        holds=plan.holds,
        replicas=replicas,
        plan=plan,
    )


def compare(*, before: Preview, after: Preview) -> Difference:
    """Return what would run or stop in ``after`` and not in ``before``."""
    known = set(before.interruptions)
    return Difference(
        starts=tuple(sorted(set(after.replicas) - set(before.replicas))),
        stops=tuple(sorted(set(before.replicas) - set(after.replicas))),
        interruptions=tuple(each for each in after.interruptions if each not in known),
    )


def with_quota(snapshot: Snapshot, *, level: Level, queue_id: int, quota: QueueQuota) -> Snapshot:
    """Return ``snapshot`` as it would be with another quota of one queue."""
    if level is Level.DEPARTMENT:
        departments = tuple(
            replace(each, quota=quota) if each.id == queue_id else each
            for each in snapshot.departments
        )
        return replace(snapshot, departments=departments)
    projects = tuple(
        replace(each, quota=quota) if each.id == queue_id else each for each in snapshot.projects
    )
    return replace(snapshot, projects=projects)


def with_workload(snapshot: Snapshot, workload: Workload) -> Snapshot:
    """Return ``snapshot`` with ``workload`` submitted, or in its new form if it is there already."""
    others = tuple(each for each in snapshot.workloads if each.id != workload.id)
    return replace(snapshot, workloads=(*others, workload))


def without_workload(snapshot: Snapshot, workload_id: int) -> Snapshot:
    """Return ``snapshot`` as if the workload had ended."""
    others = tuple(each for each in snapshot.workloads if each.id != workload_id)
    return replace(snapshot, workloads=others)


def without_node(snapshot: Snapshot, name: str) -> Snapshot:
    """Return ``snapshot`` with the node drained: it takes nothing new, and what ran there waits."""
    nodes = tuple(
        replace(node, schedulable=False) if node.name == name else node for node in snapshot.nodes
    )
    workloads = tuple(
        replace(each, replicas=_elsewhere(each.replicas, name)) for each in snapshot.workloads
    )
    return replace(snapshot, nodes=nodes, workloads=workloads)


def _elsewhere(replicas: Iterable[Replica], name: str) -> tuple[Replica, ...]:
    return tuple(replica for replica in replicas if replica.placement.node != name)


def _starts(plan: Plan, replicas: dict[int, int]) -> tuple[int, ...]:
    started = [each.workload_id for each in plan.decisions if isinstance(each, Start)]
    return tuple(dict.fromkeys(each for each in started if each in replicas))


def _interruptions(plan: Plan, snapshot: Snapshot) -> tuple[Interruption, ...]:
    before = {each.id for each in snapshot.workloads if each.replicas}
    return tuple(
        Interruption(
            workload_id=victim.workload_id,
            served_id=decision.served_id,
            rule=decision.rule,
            whole=victim.whole,
        )
        for decision in plan.decisions
        if isinstance(decision, Evict)
        for victim in decision.victims
        if victim.workload_id in before
    )
