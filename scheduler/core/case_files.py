"""Scheduling cases as JSON: reading one into a snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn

from scheduler.core.snapshot import (
    Department,
    Device,
    Node,
    Placement,
    Policy,
    Project,
    QueueQuota,
    Replica,
    Request,
    Snapshot,
    Workload,
)
from scheduler.core.units import UNLIMITED_MGPU, AmountRefused, parse_gpu
from scheduler.core.vocabulary import Kind, Rank, is_preemptible

Json = Mapping[str, object]


class CaseRefused(ValueError):
    """A case that breaks the format. The message begins with the field."""

    def __init__(self, *, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case, ready to be decided."""

    name: str
    snapshot: Snapshot
    policy: Policy


def parse_case(text: str, *, name: str) -> Case:
    """Return the case that ``text`` describes; ``name`` where it has none of its own.

    Raises:
        CaseRefused: it is not JSON or breaks the format; the message begins with the field.
    """
    try:
        raw = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except json.JSONDecodeError as exc:
        raise CaseRefused(field="file", problem=f"is not JSON: {exc}") from None
    except RecursionError:
        raise CaseRefused(field="file", problem="is nested too deep") from None
    if not isinstance(raw, dict):
        raise CaseRefused(field="file", problem="must be a JSON object")
    try:
        return _Reader(raw, name).read()
    except AmountRefused as exc:
        raise CaseRefused(field=exc.field, problem=exc.problem) from None


def _refuse_constant(text: str) -> NoReturn:
    raise CaseRefused(field="file", problem=f"{text} is not a number")


class _Reader:
    """Reads one case. Names become ids in the order of the file."""

    def __init__(self, raw: Json, name: str) -> None:
        self._raw = raw
        self._name = name
        self._replica_id = 0

    def read(self) -> Case:
        raw = self._raw
        name = _text(raw, "name", at="", default=self._name)
        nodes = tuple(_node(row, at) for at, row in _rows(raw, "nodes"))
        departments = tuple(
            Department(id=number, name=_text(row, "name", at=at), quota=_quota(row, at))
            for number, (at, row) in enumerate(_rows(raw, "departments"), start=1)
        )
        department_ids = _ids("departments", [each.name for each in departments])
        projects = tuple(
            Project(
                id=number,
                name=_text(row, "name", at=at),
                department_id=_known(row, "department", at=at, ids=department_ids),
                quota=_quota(row, at),
            )
            for number, (at, row) in enumerate(_rows(raw, "projects"), start=1)
        )
        project_ids = _ids("projects", [each.name for each in projects])
        devices_of = {
            node.name: frozenset(device.index for device in node.devices) for node in nodes
        }
        _ids("nodes", [node.name for node in nodes])
        workloads = tuple(
            self._workload(number, row, at, project_ids, devices_of)
            for number, (at, row) in enumerate(_rows(raw, "workloads"), start=1)
        )
        _ids("workloads", [each.name for each in workloads])
        snapshot = Snapshot(
            nodes=nodes, departments=departments, projects=projects, workloads=workloads
        )
        return Case(name=name, snapshot=snapshot, policy=_policy(raw))

    def _workload(
        self,
        number: int,
        row: Json,
        at: str,
        project_ids: Mapping[str, int],
        devices_of: Mapping[str, frozenset[int]],
    ) -> Workload:
        kind_name = _text(row, "type", at=at, default="training")
        kinds = {
            "training": Kind.TRAINING,
            "distributed": Kind.DISTRIBUTED,
            "workspace": Kind.WORKSPACE,
            "inference": Kind.INFERENCE,
        }
        if kind_name not in kinds:
            raise CaseRefused(field=f"{at}.type", problem=f"must be one of {', '.join(kinds)}")
        pods = _count(row, "pods", at=at, default=1, least=1)
        min_pods = _count(row, "min_pods", at=at, default=pods, least=0)
        if min_pods > pods:
            raise CaseRefused(field=f"{at}.min_pods", problem="is more than pods")
        priority = _count(row, "priority", at=at, default=40, least=1)
        explicit = _flag(row, "preemptible", at=at, default=None)
        allowed = row.get("allowed_nodes")
        return Workload(
            id=number,
            name=_text(row, "name", at=at),
            project_id=_known(row, "project", at=at, ids=project_ids),
            kind=kinds[kind_name],
            priority=priority,
            preemptible=is_preemptible(priority=priority, explicit=explicit),
            request=_request(row, at),
            submitted_at_us=_count(row, "created_order", at=at, default=0, least=0),
            min_replicas=min_pods,
            max_replicas=pods,
            replicas=self._replicas(row, at, devices_of, pods),
            node_labels=_labels(row, "node_selector", at),
            allowed_nodes=None
            if allowed is None
            else frozenset(_texts(allowed, "allowed_nodes", at)),
            running_since_us=0,
        )

    def _replicas(
        self, row: Json, at: str, devices_of: Mapping[str, frozenset[int]], pods: int
    ) -> tuple[Replica, ...]:
        state = _text(row, "state", at=at, default="pending")
        if state not in ("pending", "running"):
            raise CaseRefused(field=f"{at}.state", problem="must be running or pending")
        if state == "pending":
            return ()
        replicas = []
        for where, place in _rows(row, "placement", at=at):
            node = _text(place, "node", at=where)
            if node not in devices_of:
                raise CaseRefused(field=f"{where}.node", problem=f"{node!r} is not a node")
            devices = _indices(place, where)
            if not devices_of[node].issuperset(devices) or len(set(devices)) < len(devices):
                raise CaseRefused(field=f"{where}.devices", problem=f"{node} has no such devices")
            self._replica_id += 1
            replicas.append(
                Replica(id=self._replica_id, placement=Placement(node=node, devices=devices))
            )
        if not replicas or len(replicas) > pods:
            raise CaseRefused(
                field=f"{at}.placement", problem=f"must have 1 to {pods} entries, one a running pod"
            )
        return tuple(replicas)


def _policy(raw: Json) -> Policy:
    needs = _texts(raw.get("needs") or [], "needs", "")
    given = raw.get("policy") or {}
    if not isinstance(given, dict):
        raise CaseRefused(field="policy", problem="must be an object")
    strategy = raw.get("strategy") or {}
    if not isinstance(strategy, dict):
        raise CaseRefused(field="strategy", problem="must be an object")
    reclaim = _choice(given, "reclaim", ("quota", "fair-share"))
    placement = _choice(given, "placement", ("binpack", "spread"))
    return Policy(
        fair_share_reclaim=reclaim == "fair-share" or "fair-share-reclaim" in needs,
        spread=placement == "spread" or strategy.get("node") == "spread",
        consolidation=bool(_flag(given, "consolidation", at="policy", default=False))
        or "consolidation" in needs,
    )


def _choice(row: Json, key: str, allowed: Sequence[str]) -> str:
    value = _text(row, key, at="policy", default=allowed[0])
    if value not in allowed:
        raise CaseRefused(field=f"policy.{key}", problem=f"must be one of {', '.join(allowed)}")
    return value


def _node(row: Json, at: str) -> Node:
    memory_mib = _optional_count(row, "gpu_memory_mib", at, least=1)
    cpus = row.get("cpus")
    return Node(
        name=_text(row, "name", at=at),
        devices=tuple(
            Device(index=index, memory_mib=memory_mib)
            for index in range(_count(row, "gpus", at=at, default=0, least=0))
        ),
        cpu_milli=None if cpus is None else parse_gpu(cpus, field=f"{at}.cpus"),
        memory_mib=_optional_count(row, "memory_mib", at, least=0),
        labels=_labels(row, "labels", at),
    )


def _quota(row: Json, at: str) -> QueueQuota:
    rank = row.get("over_quota_priority")
    weight = row.get("over_quota_weight")
    return QueueQuota(
        quota_mgpu=_bound(row, "quota", at, none=0),
        limit_mgpu=_bound(row, "limit", at, none=UNLIMITED_MGPU),
        over_quota=_flag(row, "over_quota", at=at, default=True) is not False,
        rank=_rank(rank, f"{at}.over_quota_priority"),
        weight_milli=2000 if weight is None else parse_gpu(weight, field=f"{at}.over_quota_weight"),
    )


def _rank(value: object, field: str) -> int:
    """Return a rank by its name or number; None is the default rank."""
    if value is None:
        return Rank.MEDIUM_LOW
    if isinstance(value, str):
        name = value.strip().upper().replace(" ", "_").replace("-", "_")
        if name not in Rank.__members__:
            raise CaseRefused(field=field, problem=f"{value!r} is not a rank")
        return Rank[name]
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or value != int(value):
        raise CaseRefused(field=field, problem="must be a rank's name or a whole number")
    return int(value)


def _bound(row: Json, key: str, at: str, *, none: int) -> int:
    """Return a quota or limit in mGPU; -1 means no bound."""
    value = row.get(key)
    if value is None:
        return none
    if not isinstance(value, bool) and value == -1:
        return UNLIMITED_MGPU
    return parse_gpu(value, field=f"{at}.{key}")


def _request(row: Json, at: str) -> Request:
    devices = _optional_count(row, "devices_per_pod", at, least=1) or 1
    gpus = row.get("gpus_per_pod")
    memory_mib = _optional_count(row, "gpu_memory_mib_per_pod", at, least=1)
    cpus = row.get("cpus_per_pod")
    mgpu = 0 if gpus is None else parse_gpu(gpus, field=f"{at}.gpus_per_pod")
    if mgpu and memory_mib is not None:
        raise CaseRefused(
            field=f"{at}.gpu_memory_mib_per_pod", problem="stands beside gpus_per_pod; give one"
        )
    if mgpu >= 1000:
        whole, rest = divmod(mgpu, 1000)
        if rest:
            raise CaseRefused(
                field=f"{at}.gpus_per_pod", problem="above 1 only whole devices can be asked for"
            )
        devices, mgpu = devices * whole, 1000
    if not mgpu and memory_mib is None:
        devices = 0
    return Request(
        devices=devices,
        request_mgpu=mgpu,
        gpu_memory_mib=memory_mib,
        cpu_milli=0 if cpus is None else parse_gpu(cpus, field=f"{at}.cpus_per_pod"),
        memory_mib=_optional_count(row, "memory_mib_per_pod", at, least=0) or 0,
    )


def _rows(raw: Json, key: str, *, at: str = "") -> list[tuple[str, Json]]:
    """Return the objects of a list, each with its name for messages."""
    field = f"{at}.{key}" if at else key
    value = raw.get(key)
    if not isinstance(value, list):
        raise CaseRefused(field=field, problem="must be a list")
    rows: list[tuple[str, Json]] = []
    for number, row in enumerate(value):
        if not isinstance(row, dict):
            raise CaseRefused(field=f"{field}[{number}]", problem="must be an object")
        rows.append((f"{field}[{number}]", row))
    return rows


def _text(row: Json, key: str, *, at: str, default: str | None = None) -> str:
    value = row.get(key, default)
    field = f"{at}.{key}" if at else key
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not value:
        raise CaseRefused(field=field, problem="must be a text")
    return value


def _texts(value: object, key: str, at: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        field = f"{at}.{key}" if at else key
        raise CaseRefused(field=field, problem="must be a list of texts")
    return value


def _labels(row: Json, key: str, at: str) -> dict[str, str]:
    value = row.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise CaseRefused(field=f"{at}.{key}", problem="must map names to texts")
    return value


def _flag(row: Json, key: str, *, at: str, default: bool | None) -> bool | None:
    value = row.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise CaseRefused(field=f"{at}.{key}", problem="must be true or false")
    return value


def _count(row: Json, key: str, *, at: str, default: int, least: int) -> int:
    found = _optional_count(row, key, at, least=least)
    return default if found is None else found


def _optional_count(row: Json, key: str, at: str, *, least: int) -> int | None:
    value = row.get(key)
    if value is None:
        return None
    field = f"{at}.{key}"
    if isinstance(value, Decimal) and value.is_finite() and value == int(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise CaseRefused(field=field, problem="must be a whole number")
    if value < least:
        raise CaseRefused(field=field, problem=f"must be at least {least}")
    return value


def _indices(place: Json, at: str) -> tuple[int, ...]:
    value = place.get("devices")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise CaseRefused(field=f"{at}.devices", problem="must be a list of device numbers")
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in value):
        raise CaseRefused(field=f"{at}.devices", problem="must be a list of device numbers")
    return tuple(sorted(value))


def _known(row: Json, key: str, *, at: str, ids: Mapping[str, int]) -> int:
    name = _text(row, key, at=at)
    if name not in ids:
        raise CaseRefused(field=f"{at}.{key}", problem=f"{name!r} is not known")
    return ids[name]


def _ids(field: str, names: Sequence[str]) -> dict[str, int]:
    ids = {name: number for number, name in enumerate(names, start=1)}
    if len(ids) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CaseRefused(field=field, problem=f"{twice!r} stands there twice")
    return ids
