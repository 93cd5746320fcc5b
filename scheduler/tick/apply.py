"""Step 5 of a tick: one plan to tables, in one transaction, fenced. Engines are not called here."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduler import models
from scheduler.core import plan as plans
from scheduler.core.snapshot import Placement
from scheduler.core.units import fraction_mib, memory_request_mgpu
from scheduler.core.vocabulary import Phase, ReplicaPhase, Rule
from scheduler.operations import notices
from scheduler.queries.snapshots import Loaded
from scheduler.tick import ledger
from scheduler.tick.records import (
    DecisionStale,
    Work,
    add_event,
    add_party,
    lost_s,
    record_decision,
    record_holds,
    record_starving,
)


class PlanStale(Exception):
    """Another plan was committed first; this one is thrown away whole."""


@dataclass(slots=True, kw_only=True)
class Applied:
    """What became of a plan."""

    started: int = 0
    evicted: int = 0
    stale: list[int] = field(default_factory=list)
    reasons_changed: int = 0
    #: The cluster's generation after it: what the next plan must have been made from.
    generation: int = 0

    @property
    def changed(self) -> bool:
        """Test whether the tables differ from before."""
        return bool(self.started or self.evicted or self.reasons_changed)


def apply_plan(
    *, loaded: Loaded, plan: plans.Plan, generation: int, now: datetime, cycle: int
) -> Applied:
    """Carry out ``plan`` in the tables.

    Starts with the fence: the cluster's generation must still be ``generation``. A decision
    whose workload has changed since is left out, alone, and the next tick decides again.

    Raises:
        PlanStale: another plan got in first; nothing was changed.
    """
    applied = Applied(generation=generation)
    with transaction.atomic():
        if plan.decisions or plan.dropped_nominations:
            _fence(generation)
            applied.generation = generation + 1
        work = Work(loaded=loaded, now=now, cycle=cycle)
        for decision in plan.decisions:
            _apply_one(work, decision, applied)
        if plan.dropped_nominations:
            models.Nomination.objects.filter(workload_id__in=plan.dropped_nominations).delete()
        applied.reasons_changed = record_holds(work, plan)
        record_starving(loaded, plan, now)
    return applied


def _fence(generation: int) -> None:
    passed = models.Cluster.objects.filter(pk=1, generation=generation).update(
        generation=F("generation") + 1
    )
    if not passed:
        raise PlanStale


def _apply_one(work: Work, decision: plans.Decision, applied: Applied) -> None:
    try:
        with transaction.atomic():
            match decision:
                case plans.Start():
                    applied.started += _start(work, decision)
                case plans.Evict():
                    applied.evicted += _evict(work, decision)
    except DecisionStale:
        workload_id = (
            decision.workload_id if isinstance(decision, plans.Start) else decision.served_id
        )
        applied.stale.append(workload_id or 0)


def _start(work: Work, decision: plans.Start) -> int:
    """Book devices for new replicas, open their ledger intervals, record the decision."""
    workload = work.lock(decision.workload_id)
    taken = set(
        workload.replicas.exclude(phase=ReplicaPhase.ENDED).values_list("ordinal", flat=True)
    )
    if taken and Phase(workload.phase) is Phase.PENDING:
        raise DecisionStale
    ordinals = _free_ordinals(taken, len(decision.placements))
    resumed = workload.attempts > 0
    attempt = workload.attempts + 1
    asked_at = _asked_at(workload)
    for ordinal, placement in zip(ordinals, decision.placements, strict=True):
        _book(work, workload, (ordinal, attempt), placement, asked_at)
    workload.attempts = attempt
    workload.generation += 1
    if not taken:
        workload.restart_count += 1 if resumed else 0
        workload.phase = Phase.STARTING
        workload.phase_since = work.now
        workload.running_since = None
    workload.reason_code = ""
    workload.reason = {}
    workload.starving_since = None
    workload.save()
    workload.nominations.all().delete()
    work.loaded.workloads[workload.pk] = workload
    verb = "resume" if resumed and not taken else "place"
    record = record_decision(work, verb, workload, {"placements": _places(decision.placements)})
    add_event(work, workload, "placed", record, placements=_places(decision.placements))
    return len(decision.placements)


def _free_ordinals(taken: set[int], count: int) -> list[int]:
    found: list[int] = []
    ordinal = 0
    while len(found) < count:
        if ordinal not in taken:
            found.append(ordinal)
        ordinal += 1
    return found


def _asked_at(workload: models.Workload) -> datetime | None:
    """Return since when a start was waited for: a pause after a failure is no waiting."""
    if Phase(workload.phase) is Phase.PENDING:
        return max(workload.phase_since, workload.backing_off_until or workload.phase_since)
    grown = workload.events.filter(code="scaled").order_by("-id").values_list("at", flat=True)
    return grown.first()


def _book(
    work: Work,
    workload: models.Workload,
    number: tuple[int, int],
    placement: Placement,
    asked_at: datetime | None,
) -> None:
    """Book one replica; ``number``: its place in the workload, and the attempt."""
    ordinal, attempt = number
    node = work.loaded.nodes[placement.node]
    devices = [work.loaded.devices[(placement.node, index)] for index in placement.devices]
    books = [_book_of(workload, device) for device in devices]
    replica = models.Replica.objects.create(
        workload=workload,
        ordinal=ordinal,
        attempt=attempt,
        node=node,
        mgpu=sum(mgpu for mgpu, _ in books),
        cpu_milli=workload.cpu_milli,
        memory_mib=workload.memory_mib,
        booked_at=work.now,
    )
    for device, (mgpu, mib) in zip(devices, books, strict=True):
        models.Device.objects.filter(pk=device.pk).update(
            allocated_mgpu=F("allocated_mgpu") + mgpu, allocated_mib=F("allocated_mib") + mib
        )
    models.ReplicaDevice.objects.bulk_create(
        models.ReplicaDevice(replica=replica, device=device, mgpu=mgpu, memory_mib=mib)
        for device, (mgpu, mib) in zip(devices, books, strict=True)
    )
    ledger.open_allocation(
        replica=replica, workload=workload, devices=devices, asked_at=asked_at
    ).save()


def _book_of(workload: models.Workload, device: models.Device) -> tuple[int, int]:
    """Return what one replica of ``workload`` takes of ``device``: milli-GPU and MiB."""
    device_mib = device.memory_mib or 0
    if workload.gpu_memory_mib is not None:
        mib = workload.gpu_memory_mib
        return memory_request_mgpu(request_mib=mib, device_mib=device_mib), mib
    mgpu = workload.request_mgpu
    return mgpu, fraction_mib(request_mgpu=mgpu, device_mib=device_mib)


def _evict(work: Work, decision: plans.Evict) -> int:
    """Ask victims to go and keep their places for the workload that they make room for."""
    served = work.lock(decision.served_id) if decision.served_id is not None else None
    victims = [(work.lock(victim.workload_id), victim) for victim in decision.victims]
    owner = served if served is not None else victims[0][0]
    record = record_decision(
        work,
        decision.rule.value,
        owner,
        {
            "checks": [asdict(check) for check in decision.checks],
            "placements": _places(decision.placements),
            "shortfall_mgpu": decision.shortfall_mgpu,
        },
    )
    for position, (workload, victim) in enumerate(victims):
        _leave(work, decision, record, workload, victim)
        add_party(
            record,
            models.DecisionParty.Role.VICTIM,
            position,
            workload,
            _loss(work, workload, victim),
        )
    for position, spared_id in enumerate(decision.spared_ids):
        spared = work.loaded.workloads[spared_id]
        add_party(record, models.DecisionParty.Role.SPARED, position, spared, {})
    if served is not None:
        _nominate(work, served, decision.placements)
        add_event(work, served, f"served_by_{decision.rule.value}", record)
        served.generation += 1
        served.save(update_fields=["generation"])
        work.loaded.workloads[served.pk] = served
    _move(work, decision, record)
    return sum(len(victim.replica_ids) for victim in decision.victims) + len(decision.moves)


def _leave(
    work: Work,
    decision: plans.Evict,
    record: models.Decision,
    workload: models.Workload,
    victim: plans.Victim,
) -> None:
    rows = models.Replica.objects.filter(pk__in=victim.replica_ids)
    changed = rows.filter(phase__in=[ReplicaPhase.STARTING, ReplicaPhase.RUNNING]).update(
        phase=ReplicaPhase.STOPPING,
        stopping_at=work.now,
        stop_code=decision.rule.value,
        vacated_for_id=decision.served_id,
    )
    if changed != len(victim.replica_ids):
        raise DecisionStale
    workload.generation += 1
    workload.interruptions += 1
    if victim.whole:
        workload.phase = Phase.STOPPING
        workload.phase_since = work.now
    workload.save()
    work.loaded.workloads[workload.pk] = workload
    code = {Rule.RECLAIM: "reclaimed", Rule.PREEMPT: "preempted"}.get(
        decision.rule, decision.rule.value
    )
    add_event(
        work,
        workload,
        code,
        record,
        for_workload_id=decision.served_id,
        freed_mgpu=victim.freed_mgpu,
        whole=victim.whole,
        grace_s=workload.grace_s,
    )
    notices.tell_owner(
        workload=workload,
        code={"consolidate": "moved", "lost": "work_lost"}.get(code, code),
        params={"decision": record.pk, "freed_mgpu": victim.freed_mgpu, "whole": victim.whole},
        now=work.now,
    )


def _loss(work: Work, workload: models.Workload, victim: plans.Victim) -> dict[str, object]:
    """Return what the interruption costs, and what it brings."""
    return {
        "freed_mgpu": victim.freed_mgpu,
        "whole": victim.whole,
        "straddler": victim.straddler,
        "priority": workload.priority,
        "lost_s": lost_s(workload, now=work.now),
        "checkpoint": workload.checkpoint,
    }


def _nominate(work: Work, workload: models.Workload, placements: tuple[Placement, ...]) -> None:
    workload.nominations.all().delete()
    models.Nomination.objects.bulk_create(
        models.Nomination(
            workload=workload,
            position=position,
            node=work.loaded.nodes[placement.node],
            device_indices=list(placement.devices),
            created_at=work.now,
        )
        for position, placement in enumerate(placements)
    )


def _move(work: Work, decision: plans.Evict, record: models.Decision) -> None:
    """Ask replicas to leave for new places, which are kept for them: they run again at once."""
    by_workload: dict[int, list[int]] = {}
    for replica_id in decision.moves:
        workload_id = work.loaded.replicas[replica_id].workload_id
        by_workload.setdefault(workload_id, []).append(replica_id)
    for workload_id, replica_ids in by_workload.items():
        workload = work.lock(workload_id)
        alive = workload.replicas.exclude(phase=ReplicaPhase.ENDED).count()
        moved = plans.Victim(
            workload_id=workload_id,
            replica_ids=tuple(replica_ids),
            whole=len(replica_ids) == alive,
            freed_mgpu=sum(work.loaded.replicas[pk].mgpu for pk in replica_ids),
        )
        loss = _loss(work, workload, moved)
        _leave(work, replace(decision, rule=Rule.CONSOLIDATE), record, workload, moved)
        add_party(record, models.DecisionParty.Role.VICTIM, len(decision.victims), workload, loss)
        _nominate(work, workload, tuple(decision.moves[pk] for pk in replica_ids))


def _places(placements: tuple[Placement, ...]) -> list[dict[str, object]]:
    return [{"node": p.node, "devices": list(p.devices)} for p in placements]
