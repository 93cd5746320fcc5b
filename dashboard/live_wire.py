"""One reader's Overview as JSON for the browser, and what differs between two of them. Pure.

Times are milliseconds since 1970, GPU amounts milli-GPU, sentences lists of spans
``[text, strong, workload id]`` in the reader's language.
"""

from __future__ import annotations

import json
import math
from datetime import datetime

from scheduler.queries.cluster_map import ClusterMap
from scheduler.queries.day import Day
from scheduler.queries.history import DecisionRow
from scheduler.queries.overview import Eviction, Overview, Tiles
from scheduler.queries.phrases import Phrase
from scheduler.queries.pool_state import NodeState
from scheduler.queries.queues import QueueRow
from scheduler.queries.waiting import WaitingRow

Json = dict[str, object]
WAITING_SHOWN = 6

#: Parts that are told entry by entry; all others whole where they differ.
KEYED = ("gpu", "wl", "ut", "pr")
#: Which parts each topic brings.
TOPICS: dict[str, tuple[str, ...]] = {
    "map": ("nodes", "gpu", "wl", "ut", "pr", "act"),
    "kpi": ("kpi", "lede", "frame"),
    "quota": ("quota", "pr"),
    "waiting": ("wait",),
    "events": ("ev",),
}


def overview_to_wire(overview: Overview) -> Json:
    """Return all parts of an Overview."""
    return {
        "frame": {"partial": overview.partial},
        "kpi": _kpi(overview),
        "lede": spans(overview.lede),
        **map_to_wire(overview.map),
        "pr": {
            str(row.id): [row.name, row.color]
            for row in overview.tree.rows
            if not row.is_department
        },
        "quota": {
            "rows": [_queue(row) for row in overview.tree.rows],
            "unused": overview.tree.unused_guarantee_mgpu,
        },
        "wait": [_waiting(row) for row in overview.waiting[:WAITING_SHOWN]],
        "ev": [_decision(row) for row in overview.decisions],
        "act": [_eviction(eviction) for eviction in overview.evictions],
    }


def map_to_wire(the_map: ClusterMap) -> Json:
    """Return the parts of a map: its nodes, what is on each GPU, and what that is."""
    return {
        "nodes": [_node(node) for node in the_map.nodes],
        "gpu": _gpus(the_map),
        "wl": _workloads(the_map),
        "ut": {str(w.id): w.utilization_permille for w in the_map.workloads.values()},
    }


def day_to_wire(day: Day) -> Json:
    """Return the last 24 hours as columns."""
    return {
        "from": day.from_us // 1000,
        "to": day.to_us // 1000,
        "capacity": day.capacity_mgpu,
        "at": [point.at_us // 1000 for point in day.points],
        "held": [point.held_mgpu for point in day.points],
        "idle": [point.idle_mgpu for point in day.points],
        "borrowed": [point.borrowed_mgpu for point in day.points],
        "waiting": [point.waiting for point in day.points],
        "reclaims": [[at_us // 1000, decision_id] for at_us, decision_id in day.reclaims],
    }


def difference(*, before: Json, after: Json) -> Json:
    """Return what ``after`` has that ``before`` has not; a GPU is told whole, what is gone as null."""
    found: Json = {}
    for name, value in after.items():
        old = before.get(name)
        if value == old:
            continue
        if name in KEYED and isinstance(value, dict) and isinstance(old, dict):
            changed = {key: entry for key, entry in value.items() if old.get(key, _NONE) != entry}
            changed.update({key: None for key in old if key not in value})
            found[name] = changed
        else:
            found[name] = value
    return found


def only(parts: Json, topics: frozenset[str]) -> Json:
    """Return the parts that a client has asked for."""
    wanted = {name for topic in topics for name in TOPICS.get(topic, ())}
    return {name: value for name, value in parts.items() if name in wanted}


def as_json(message: Json) -> str:
    """Return a message as a browser can parse it: a number that is none is told as null."""
    try:
        return json.dumps(message, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(message), separators=(",", ":"))


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value


def spans(phrase: Phrase) -> list[list[object]]:
    """Return a sentence as spans."""
    return [[span.text, int(span.strong), span.workload_id or 0] for span in phrase]


_NONE = object()


def _kpi(overview: Overview) -> Json:
    tiles: Tiles = overview.tiles
    oldest_at_s = int(overview.at.timestamp()) - tiles.oldest_waiting_s
    return {
        "gpus": tiles.gpus,
        "schedulable": tiles.schedulable,
        "unhealthy": tiles.unhealthy,
        "capacity": tiles.capacity_mgpu,
        "held": tiles.held_mgpu,
        "computing": tiles.computing_mgpu,
        "idle": tiles.idle_mgpu,
        "util": tiles.utilization_permille,
        "cost": None if tiles.idle_cost is None else f"{tiles.idle_cost:.2f}",
        "currency": tiles.currency,
        "borrowed": tiles.borrowed_mgpu,
        "borrowers": tiles.borrowing_projects,
        "free": tiles.free_mgpu,
        "largest": tiles.largest_mgpu,
        "waiting": tiles.waiting,
        "oldest": oldest_at_s * 1000 if tiles.waiting else None,
        "workloads": tiles.workloads,
    }


def _node(node: NodeState) -> list[object]:
    state = "ok"
    for name, is_so in (
        ("lost", node.lost),
        ("draining", node.draining),
        ("cordoned", node.cordoned),
    ):
        if is_so:
            state = name
            break
    devices = [[device.id, device.index, int(device.healthy)] for device in node.devices]
    model = node.gpu_model or next((d.model for d in node.devices if d.model), "")
    memory = next((d.memory_mib for d in node.devices if d.memory_mib), None)
    return [node.id, node.name, model, memory, state, int(node.virtual), devices]


def _gpus(the_map: ClusterMap) -> Json:
    return {
        str(device.id): [
            [part.workload_id, part.mgpu, part.flags] for part in the_map.slices.get(device.id, ())
        ]
        for node in the_map.nodes
        for device in node.devices
    }


def _workloads(the_map: ClusterMap) -> Json:
    return {
        str(workload.id): [
            workload.name,
            workload.project_id,
            workload.kind.value,
            int(workload.gang),
            int(workload.preemptible),
            _ms(workload.running_since),
        ]
        for workload in the_map.workloads.values()
    }


def _queue(row: QueueRow) -> Json:
    return {
        "id": row.id,
        "name": row.name,
        "dept": int(row.is_department),
        "color": row.color,
        "known": int(row.known),
        "held": row.held_mgpu,
        "idle": row.idle_mgpu,
        "over": row.borrowed_mgpu,
        "quota": row.quota_mgpu,
        "limit": row.limit_mgpu,
        "waiting": row.waiting,
    }


def _waiting(row: WaitingRow) -> Json:
    return {
        "id": row.id,
        "name": row.name,
        "project": row.project_name,
        "color": row.color,
        "asks": row.request_mgpu,
        "mib": row.gpu_memory_mib,
        "since": _ms(row.since),
        "why": spans(row.why),
        "when": spans(row.runs_when),
        "code": row.code,
    }


def _decision(row: DecisionRow) -> Json:
    return {
        "id": row.id,
        "at": _ms(row.at),
        "verb": row.verb,
        "name": row.verb_name,
        "tone": row.tone,
        "text": spans(row.text),
    }


def _eviction(eviction: Eviction) -> Json:
    return {
        "rule": eviction.rule,
        "text": spans(eviction.text),
        "served": eviction.served_id,
        "gpus": list(eviction.device_ids),
        "from": _ms(eviction.from_at),
        "until": _ms(eviction.until_at),
    }


def _ms(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1000)
