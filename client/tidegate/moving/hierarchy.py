"""Queues and projects of KAI, Run:ai and Kueue as rows of a quota file: department, project, amounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from tidegate.moving.documents import at, items, kind_of, mapping, name_of
from tidegate.moving.found import Found, ImportRefused, Json, gpus, mebibytes, thousandths

GPU = "nvidia.com/gpu"
Row = dict[str, str]
KINDS = {
    ("scheduling.run.ai", "Queue"): "KAI",
    ("kai.scheduler", "Queue"): "KAI",
    ("run.ai", "Project"): "Run:ai",
    ("run.ai", "Department"): "Run:ai",
    ("kueue.x-k8s.io", "ClusterQueue"): "Kueue",
    ("kueue.x-k8s.io", "Cohort"): "Kueue",
    ("kueue.x-k8s.io", "LocalQueue"): "Kueue",
    ("kueue.x-k8s.io", "ResourceFlavor"): "Kueue",
    ("kueue.x-k8s.io", "WorkloadPriorityClass"): "Kueue",
    ("kueue.x-k8s.io", "Topology"): "Kueue",
    ("kueue.x-k8s.io", "AdmissionCheck"): "Kueue",
}
UNLIMITED = -1


def reads(thing: Json) -> bool:
    """Test whether an object is a queue or a project of one of these systems."""
    return kind_of(thing) in KINDS


def read(things: Sequence[Json]) -> Found:
    """Return the rows of all objects of a file.

    Raises:
        ImportRefused: what can't be read, or a tree that is not two levels deep.
    """
    systems = sorted({KINDS[kind_of(each)] for each in things})
    if len(systems) > 1:
        raise ImportRefused(f"One file is of one system; this one is of {' and '.join(systems)}.")
    found = Found(system=systems[0])
    {"KAI": _kai, "Run:ai": _runai, "Kueue": _kueue}[systems[0]](things, found)
    if not found.units:
        raise ImportRefused("There is no queue and no project in it.")
    names = [row["project"] or row["department"] for row in found.units]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ImportRefused(
            f"{', '.join(twice)}: a name may stand for one department or project only."
        )
    found.units.sort(key=lambda row: (row["department"], row["project"] != "", row["project"]))
    return found


def quota_file(found: Found, *, pool: str) -> str:
    """Return the rows as a quota file in YAML, for one node pool."""
    departments: dict[str, Json] = {}
    for row in found.units:
        cells = {name: text for name, text in row.items() if name not in ("department", "project")}
        own = departments.setdefault(row["department"], {"department": row["department"]})
        if row["project"]:
            own.setdefault("projects", []).append({"project": row["project"], **cells})
        else:
            own.update(cells)
    tree = {"pools": {pool: list(departments.values())}}
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


# --- KAI ------------------------------------------------------------------------------------------


def _kai(things: Sequence[Json], found: Found) -> None:
    parents = {name_of(each): at(each, "spec", "parentQueue") for each in things}
    for thing in things:
        name, parent = name_of(thing), parents[name_of(thing)]
        if parent and parent not in parents:
            raise ImportRefused(f"{name}: its parent {parent} is not in this file.")
        if parent and parents[parent]:
            raise ImportRefused(
                f"{name}: the tree is deeper than departments and projects. Take out a level."
            )
        row = _row(str(parent or name), name if parent else "")
        spec = mapping(thing.get("spec"), f"{name}: spec")
        resources = mapping(spec.get("resources"), f"{name}: spec.resources")
        _kai_gpu(row, mapping(resources.get("gpu"), f"{name}: gpu"), name, found)
        # CPU is in thousandths of a core, memory in megabytes of 10^6 bytes.
        _kai_rest(row, resources, name)
        for field, value in spec.items():
            if field not in ("parentQueue", "resources", "displayName"):
                found.leave(f"{name}: spec.{field}", value, _KAI_IGNORED.get(field, _UNKNOWN))
        if spec.get("displayName") not in (None, name):
            found.leave(f"{name}: spec.displayName", spec["displayName"], "Units have one name.")
        found.units.append(row)


_UNKNOWN = "It is not known here."
_KAI_IGNORED = {
    "priority": "Set the rank: the order in which siblings get idle GPUs.",
    "reclaimMinRuntime": "What is lent comes back when its guarantee is asked for.",
    "preemptMinRuntime": "Work gives way to work of higher priority in its project.",
}


def _kai_gpu(row: Row, gpu: Json, name: str, found: Found) -> None:
    quota, limit = gpu.get("quota", 0), gpu.get("limit", UNLIMITED)
    _amount(row, "guarantee", quota, f"{name}: gpu.quota", found)
    _limit(row, limit, f"{name}: gpu.limit", found)
    if "overQuotaWeight" in gpu:
        _weight(row, gpu["overQuotaWeight"], f"{name}: gpu.overQuotaWeight", found)


def _kai_rest(row: Row, resources: Json, name: str) -> None:
    for kind, prefix, divide in (("cpu", "cpu", 1000), ("memory", "memory", 1)):
        said = mapping(resources.get(kind), f"{name}: {kind}")
        for field, column in (("quota", "guarantee"), ("limit", "limit")):
            value = said.get(field, UNLIMITED)
            if value == UNLIMITED:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ImportRefused(f"{name}: {kind}.{field}: {value!r} is no amount.")
            if kind == "cpu":
                row[f"{prefix}_{column}"] = gpus(value * 1000 // divide)
            else:
                row[f"{prefix}_{column}_mib"] = str(-(-value * 10**6 // 1024**2))


# --- Run:ai ---------------------------------------------------------------------------------------

_RUNAI_READ = frozenset(
    {"deservedGpus", "maxAllowedGpus", "department", "gpuOverQuotaWeight", "allowOverQuota"}
)


def _runai(things: Sequence[Json], found: Found) -> None:
    for thing in things:
        name, spec = name_of(thing), mapping(thing.get("spec"), f"{name_of(thing)}: spec")
        is_project = kind_of(thing)[1] == "Project"
        department = str(spec.get("department") or "default") if is_project else name
        row = _row(department, name if is_project else "")
        _amount(row, "guarantee", spec.get("deservedGpus", 0), f"{name}: deservedGpus", found)
        _limit(row, spec.get("maxAllowedGpus", UNLIMITED), f"{name}: maxAllowedGpus", found)
        if "gpuOverQuotaWeight" in spec:
            _weight(row, spec["gpuOverQuotaWeight"], f"{name}: gpuOverQuotaWeight", found)
        if spec.get("allowOverQuota") is False:
            row["over_quota"] = "no"
            found.carry(f"{name}: allowOverQuota", "false", "over_quota: no")
        for field, value in spec.items():
            if field not in _RUNAI_READ:
                found.leave(f"{name}: spec.{field}", value, _RUNAI_IGNORED.get(field, _UNKNOWN))
        found.units.append(row)


_RUNAI_IGNORED = {
    "nodePools": "Import once for each node pool: --pool.",
    "resources": "Write deservedGpus, or import once for each node pool.",
    "nodeAffinityTrain": "Work chooses nodes by their labels.",
    "nodeAffinityInteractive": "Work chooses nodes by their labels.",
    "interactiveJobTimeLimitSecs": "Set it as a rule on duration of the project.",
    "interactiveJobMaxIdleDurationSecs": "Set it as a rule on idle time of the project.",
    "trainingJobMaxIdleDurationSecs": "Set it as a rule on idle time of the project.",
    "permissions": "Give roles on the page People.",
    "users": "Give roles on the page People.",
    "namespace": "Work has no namespaces.",
}


# --- Kueue ----------------------------------------------------------------------------------------


def _kueue(things: Sequence[Json], found: Found) -> None:
    for thing in things:
        name, kind = name_of(thing), kind_of(thing)[1]
        spec = mapping(thing.get("spec"), f"{name}: spec")
        if kind == "ClusterQueue":
            cohort = spec.get("cohortName") or spec.get("cohort")
            row = _row(str(cohort or f"{name}-department"), name)
            if not cohort:
                found.leave(f"{name}: cohort", "none", f"It stands alone in {name}-department.")
        elif kind == "Cohort":
            if spec.get("parentName") or spec.get("parent"):
                raise ImportRefused(f"{name}: the tree is deeper than departments and projects.")
            row = _row(name, "")
        else:
            found.leave(f"{kind} {name}", spec or "", _KUEUE_KINDS[kind])
            continue
        _kueue_groups(row, spec, name, found)
        for field, value in spec.items():
            if field not in ("resourceGroups", "cohort", "cohortName", "fairSharing"):
                found.leave(f"{name}: spec.{field}", value, _KUEUE_IGNORED.get(field, _UNKNOWN))
        weight = at(spec, "fairSharing", "weight")
        if weight is not None:
            _weight(row, weight, f"{name}: fairSharing.weight", found)
        found.units.append(row)


_KUEUE_KINDS = {
    "LocalQueue": "Work names its project.",
    "ResourceFlavor": "Nodes and their pools are registered with Tidegate.",
    "WorkloadPriorityClass": "Priorities are 1 to 1000, with defaults of each kind of work.",
    "Topology": "Nodes are registered with Tidegate.",
    "AdmissionCheck": "There are no further checks.",
}
_KUEUE_IGNORED = {
    "namespaceSelector": "Roles say who may submit into a project.",
    "queueingStrategy": "What does not fit does not block what is behind it, and does not starve.",
    "preemption": "A guarantee always comes back; inside a project the priority decides.",
    "flavorFungibility": "Each node pool has quotas of its own.",
    "admissionChecks": "There are no further checks.",
    "stopPolicy": "Cordon the nodes, or set the limit to 0.",
}


def _kueue_groups(row: Row, spec: Json, name: str, found: Found) -> None:
    flavors: list[Any] = []
    for group in items(spec.get("resourceGroups"), f"{name}: resourceGroups"):
        flavors += items(at(group, "flavors"), f"{name}: flavors")
    with_gpu = [each for each in flavors if any(r.get("name") == GPU for r in _resources(each))]
    if len(with_gpu) > 1:
        names = ", ".join(str(at(each, "name")) for each in with_gpu)
        raise ImportRefused(
            f"{name}: GPUs of several flavors ({names}). Each node pool has quotas of its own: write "
            "one file for each flavor and import it with --pool."
        )
    for flavor in flavors:
        for resource in _resources(flavor):
            _kueue_resource(row, resource, name, found)


def _resources(flavor: Any) -> list[Json]:
    return [mapping(each, "resources") for each in items(at(flavor, "resources"), "resources")]


def _kueue_resource(row: Row, resource: Json, name: str, found: Found) -> None:
    kind, nominal = str(resource.get("name")), resource.get("nominalQuota", 0)
    of = f"{name}: {kind}"
    if kind == GPU:
        _amount(row, "guarantee", nominal, f"{of}.nominalQuota", found)
        borrowing = resource.get("borrowingLimit")
        if borrowing is not None:
            most = thousandths(str(nominal), of=of) + thousandths(str(borrowing), of=of)
            row["limit"] = gpus(most)
            row["over_quota"] = "yes" if str(borrowing) != "0" else "no"
            found.carry(f"{of}.borrowingLimit", borrowing, f"limit: {row['limit']}")
        if resource.get("lendingLimit") is not None:
            found.leave(f"{of}.lendingLimit", resource["lendingLimit"], "All that is idle is lent.")
    elif kind == "cpu":
        row["cpu_guarantee"] = gpus(thousandths(str(nominal), of=of))
        found.carry(f"{of}.nominalQuota", nominal, "cpu_guarantee")
    elif kind == "memory":
        row["memory_guarantee_mib"] = str(mebibytes(str(nominal), of=of))
        found.carry(f"{of}.nominalQuota", nominal, "memory_guarantee_mib")
    else:
        found.leave(of, nominal, "Only NVIDIA GPUs, CPU and memory are counted.")


# --- All of them ----------------------------------------------------------------------------------


def _row(department: str, project: str) -> Row:
    return {"department": department, "project": project, "guarantee": "0", "limit": ""}


def _amount(row: Row, column: str, value: Any, of: str, found: Found) -> None:
    """Set an amount of GPUs. No system's "unlimited" is a guarantee: nobody could keep it."""
    if value == UNLIMITED:
        found.leave(of, "unlimited", "A guarantee is an amount: it is 0, and more may be borrowed.")
        return
    row[column] = gpus(thousandths(str(value), of=of))
    found.carry(of, value, f"{column}: {row[column]}")


def _limit(row: Row, value: Any, of: str, found: Found) -> None:
    if value in (UNLIMITED, None):
        return
    row["limit"] = gpus(thousandths(str(value), of=of))
    found.carry(of, value, f"limit: {row['limit']}")


def _weight(row: Row, value: Any, of: str, found: Found) -> None:
    milli = thousandths(str(value), of=of)
    row["over_quota"] = "yes" if milli else "no"
    if milli:
        row["weight"] = gpus(milli)
    found.carry(of, value, f"weight: {gpus(milli)}" if milli else "over_quota: no")
