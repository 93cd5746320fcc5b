"""The Overview: tiles, the sentence on top, what waits and why, what is being taken back right now."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduler.core.units import WHOLE_GPU_MGPU, format_gpu
from scheduler.core.vocabulary import Kind, ReplicaPhase
from scheduler.queries import cluster_map, history, queues, waiting
from scheduler.queries.cluster_map import ClusterMap
from scheduler.queries.day import Day, read_day
from scheduler.queries.phrases import Phrase, join, phrase, strong
from scheduler.queries.places import places_of
from scheduler.queries.pool_state import PoolRow, PoolState, ReplicaState, load_pool_state
from scheduler.queries.prices import prices_at
from scheduler.queries.queues import QueueTree
from scheduler.queries.visibility import Visibility
from scheduler.queries.waiting import WaitingRow

IDLE_FINDING_PERCENT = 15
WAITING_FINDING_S = 30 * 60
DECISIONS_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The seven figures. Sums over the reader's scope; None: not for this reader."""

    gpus: int
    schedulable: int
    unhealthy: int
    capacity_mgpu: int
    held_mgpu: int
    computing_mgpu: int
    idle_mgpu: int
    #: Of the idle amount, what inference services hold.
    idle_inference_mgpu: int
    utilization_permille: int | None
    idle_cost: Decimal | None
    currency: str
    borrowed_mgpu: int
    borrowing_projects: int
    free_mgpu: int | None
    largest_mgpu: int | None
    waiting: int
    oldest_waiting_s: int
    workloads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """What is being vacated right now, and for whom."""

    rule: str
    text: Phrase
    served_id: int
    device_ids: tuple[int, ...]
    from_at: datetime
    until_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One pool for one reader at one instant."""

    pool: PoolRow
    cluster_name: str
    partial: bool
    at: datetime
    cycle: int
    generation: int
    last_cycle_at: datetime | None
    tiles: Tiles
    lede: Phrase
    map: ClusterMap
    tree: QueueTree
    waiting: tuple[WaitingRow, ...]
    evictions: tuple[Eviction, ...]
    decisions: tuple[history.DecisionRow, ...]


def read_overview(*, visible: Visibility, pool_name: str = "", now: datetime) -> Overview | None:
    """Return the Overview of a pool, or None where there is no pool."""
    state = load_pool_state(visible=visible, pool_name=pool_name)
    if state is None:
        return None
    the_map = cluster_map.make_cluster_map(state, now=now)
    tree = queues.make_queue_tree(state)
    rows = waiting.make_waiting_rows(state)
    tiles = _tiles(state, the_map, tree, now=now)
    return Overview(
        pool=state.pool,
        cluster_name=state.cluster.name,
        partial=state.partial,
        at=now,
        cycle=state.cluster.cycle,
        generation=state.cluster.generation,
        last_cycle_at=state.cluster.last_cycle_at,
        tiles=tiles,
        lede=_lede(tiles),
        map=the_map,
        tree=tree,
        waiting=rows,
        evictions=_evictions(state),
        decisions=history.list_decisions(
            visible=visible,
            pool_id=state.pool.id,
            wanted=history.DecisionFilter(limit=DECISIONS_SHOWN),
        ),
    )


def read_overview_day(*, visible: Visibility, pool_id: int, now: datetime) -> Day:
    """Return the last 24 hours; apart from the rest, since it costs more and changes slower."""
    return read_day(visible=visible, pool_id=pool_id, now=now)


def _tiles(state: PoolState, the_map: ClusterMap, tree: QueueTree, *, now: datetime) -> Tiles:
    projects = [row for row in tree.rows if not row.is_department]
    held_mgpu = sum(row.held_mgpu for row in projects)
    idle_mgpu = sum(row.idle_mgpu for row in projects)
    pending = [w for w in state.workloads.values() if w.waits]
    oldest_at = min((w.phase_since for w in pending), default=now)
    devices = [device for node in state.nodes for device in node.devices]
    schedulable = [
        device
        for node in state.nodes
        if node.schedulable
        for device in node.devices
        if device.healthy
    ]
    shown = state.tells_others
    free = [WHOLE_GPU_MGPU - device.allocated_mgpu for device in schedulable]
    return Tiles(
        gpus=len(devices),
        schedulable=len(schedulable),
        unhealthy=sum(not device.healthy for device in devices),
        capacity_mgpu=WHOLE_GPU_MGPU * len(devices),
        held_mgpu=held_mgpu,
        computing_mgpu=held_mgpu - idle_mgpu,
        idle_mgpu=idle_mgpu,
        idle_inference_mgpu=_idle_of_services(state),
        utilization_permille=_utilization(state),
        idle_cost=_idle_cost(state, now=now),
        currency=state.cluster.currency,
        borrowed_mgpu=sum(row.borrowed_mgpu for row in projects),
        borrowing_projects=sum(row.borrowed_mgpu > 0 for row in projects),
        free_mgpu=sum(free) if shown else None,
        largest_mgpu=max(free, default=0) if shown else None,
        waiting=len(pending),
        oldest_waiting_s=int((now - oldest_at).total_seconds()),
        workloads=len(state.workloads),
    )


def _idle_of_services(state: PoolState) -> int:
    return sum(
        replica.mgpu
        for replica in state.replicas
        if replica.idle and state.workloads[replica.workload_id].kind is Kind.INFERENCE
    )


def _utilization(state: PoolState) -> int | None:
    """Return the mean utilization of the computing part, weighed by what is held."""
    weight_mgpu = 0
    busy = 0
    for replica in state.replicas:
        if replica.idle or replica.utilization_permille is None:
            continue
        weight_mgpu += replica.mgpu
        busy += replica.mgpu * min(1000, replica.utilization_permille)
    return busy // weight_mgpu if weight_mgpu else None


def _idle_cost(state: PoolState, *, now: datetime) -> Decimal | None:
    """Return what the idle amount costs an hour; None where no price is set."""
    prices = prices_at(now)
    if not prices:
        return None
    model_of = {device.id: device.model for node in state.nodes for device in node.devices}
    total = Decimal(0)
    for replica in state.replicas:
        if not replica.idle:
            continue
        for device_id, mgpu in replica.holdings:
            rate = prices.get(model_of.get(device_id, ""), prices.get("", Decimal(0)))
            total += rate * mgpu / WHOLE_GPU_MGPU
    return total


def _lede(tiles: Tiles) -> Phrase:
    """Return the sentence about the largest finding."""
    if not tiles.gpus:
        return phrase(_("This pool has no GPU yet."))
    places = {
        "held": strong(format_gpu(tiles.held_mgpu)),
        "capacity": tiles.gpus,
        "computing": strong(format_gpu(tiles.computing_mgpu)),
        "idle": strong(format_gpu(tiles.idle_mgpu)),
        "n": strong(tiles.waiting),
        "minutes": tiles.oldest_waiting_s // 60,
    }
    if not tiles.held_mgpu:
        return phrase(
            ngettext(
                "The {capacity} GPU is free: nothing is allocated.",
                "All {capacity} GPUs are free: nothing is allocated.",
                tiles.gpus,
            ),
            **places,
        )
    if tiles.idle_mgpu * 100 > IDLE_FINDING_PERCENT * tiles.held_mgpu:
        return _idle_lede(tiles, places)
    if tiles.oldest_waiting_s > WAITING_FINDING_S:
        return phrase(
            ngettext(
                "{held} of {capacity} GPU is allocated and {computing} is computing. {n} wait, the "
                "longest for {minutes} min.",
                "{held} of {capacity} GPUs are allocated and {computing} are computing. {n} wait, "
                "the longest for {minutes} min.",
                tiles.gpus,
            ),
            **places,
        )
    return phrase(
        ngettext(
            "{held} of {capacity} GPU is allocated and {computing} is computing.",
            "{held} of {capacity} GPUs are allocated and {computing} are computing.",
            tiles.gpus,
        ),
        **places,
    )


def _idle_lede(tiles: Tiles, places: dict[str, object]) -> Phrase:
    percent = round(100 * tiles.idle_inference_mgpu / tiles.idle_mgpu)
    if not percent:
        return phrase(
            ngettext(
                "{held} of {capacity} GPU is allocated and {computing} is computing. {idle} sits "
                "idle.",
                "{held} of {capacity} GPUs are allocated and {computing} are computing. {idle} sit "
                "idle.",
                tiles.gpus,
            ),
            **places,
        )
    return phrase(
        ngettext(
            "{held} of {capacity} GPU is allocated and {computing} is computing. {idle} sits idle, "
            "{percent}% of that in always-on inference without traffic.",
            "{held} of {capacity} GPUs are allocated and {computing} are computing. {idle} sit "
            "idle, {percent}% of that in always-on inference without traffic.",
            tiles.gpus,
        ),
        percent=percent,
        **places,
    )


def _evictions(state: PoolState) -> tuple[Eviction, ...]:
    """Return what is being vacated, the newest first."""
    leaving: dict[tuple[int, str], list[ReplicaState]] = defaultdict(list)
    for replica in state.replicas:
        if replica.phase is ReplicaPhase.STOPPING and replica.vacated_for_id is not None:
            leaving[(replica.vacated_for_id, replica.stop_code)].append(replica)
    found = [
        _eviction(state, served_id, rule, replicas)
        for (served_id, rule), replicas in leaving.items()
    ]
    return tuple(sorted(found, key=lambda e: (e.from_at, e.served_id), reverse=True))


def _eviction(
    state: PoolState, served_id: int, rule: str, replicas: list[ReplicaState]
) -> Eviction:
    served = state.workloads.get(served_id)
    victims = {r.workload_id: state.workloads[r.workload_id] for r in replicas}
    from_at = max(r.stopping_at or r.booked_at for r in replicas)
    grace_s = max(victim.grace_s for victim in victims.values())
    names = join(
        [(waiting.name_of(state, victim),) for victim in victims.values()], separator=_(", ")
    )
    template = _(
        "{served} takes back {amount} GPU of its guarantee on {place}. {victims} was borrowing it."
    )
    if rule == "preempt":
        template = _("{served} takes {amount} GPU on {place} from {victims}, by priority.")
    who = waiting.name_of(state, served) if served else strong(_("Another project"))
    text = phrase(
        template,
        served=who,
        amount=format_gpu(sum(r.mgpu for r in replicas)),
        place=_(", ").join(places_of(state, replicas)) or "-",
        victims=names,
    )
    saved = [
        waiting.saved_in_words(victim)
        for victim in victims.values()
        if victim.checkpoint_at is not None and victim.checkpoint_at >= from_at
    ]
    return Eviction(
        rule=rule,
        text=join((text, *saved)),
        served_id=served_id if served else 0,
        device_ids=tuple(device_id for r in replicas for device_id, _mgpu in r.holdings),
        from_at=from_at,
        until_at=from_at + timedelta(seconds=grace_s),
    )
