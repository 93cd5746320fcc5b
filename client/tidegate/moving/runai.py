"""A Run:ai workload as a submission: training, workspace, distributed training, inference."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from tidegate.moving.documents import at, kind_of, mapping, name_of, whole
from tidegate.moving.found import Found, ImportRefused, Json, mebibytes, thousandths, work_name
from tidegate.moving.kubernetes import priority_of

GROUP = "run.ai"
KINDS = {
    "TrainingWorkload": "training",
    "InteractiveWorkload": "workspace",
    "DistributedWorkload": "distributed",
    "InferenceWorkload": "inference",
}
#: Fields of ``spec`` that mean nothing here, with the reason.
_IGNORED = {
    "image": "Images are not run: define an environment with what it holds.",
    "imagePullPolicy": "Images are not run: define an environment.",
    "imagePullSecrets": "Images are not run: define an environment.",
    "pvcs": "Define data sources.",
    "nfs": "Define data sources.",
    "gitSync": "Define a data source of the type git.",
    "s3": "Define a data source of the type s3.",
    "hostPath": "Define data sources.",
    "configMapVolumes": "Define data sources.",
    "workingDir": "Work begins in a folder of its own; an environment may name one below it.",
    "ports": "Ports are given by the engine: {port} in a service's command.",
    "exposedUrls": "Services are reached through the gateway.",
    "tolerations": "Nodes are chosen by labels and health.",
    "nodeType": "Choose nodes by their labels: node_labels.",
    "largeShm": "Processes of one node share memory anyway.",
    "runAsUser": "Work runs as the engine's user.",
    "runAsGid": "Work runs as the engine's user.",
    "runAsUid": "Work runs as the engine's user.",
    "allowPrivilegeEscalation": "Work runs as the engine's user.",
    "stdin": "There is no standard input.",
    "tty": "There is no terminal.",
    "annotations": "There are no annotations.",
    "labels": "There are no labels.",
    "ttlAfterFinish": "What has ended stays in the list until it is deleted.",
    "serviceType": "Services are reached through the gateway.",
    "usage": "It is a word for this file only.",
    "gpuLimit": "A share is what is asked for, and its memory is kept to.",
    "cpuLimit": "CPU is what is asked for.",
    "memoryLimit": "Memory is what is asked for, and kept to.",
    "cleanPodPolicy": "Replicas of a gang end together.",
    "minReplicas": "Written as min and max below autoscaling.",
    "framework": "The command begins each replica; its rank is in RANK.",
}


def read(thing: Json, found: Found) -> Json:
    """Return the submission of a Run:ai workload.

    Raises:
        ImportRefused: what can't be read or has no equal here.
    """
    spec = mapping(thing.get("spec"), "spec")
    name = _value(spec.get("name")) or name_of(thing)
    made: Json = {
        "name": work_name(str(name), found, of="name"),
        "kind": KINDS[kind_of(thing)[1]],
    }
    project = _project(thing)
    if project:
        made["project"] = project
        found.carry("metadata.namespace", at(thing, "metadata", "namespace"), f"project: {project}")
    asks = False
    for field, said in spec.items():
        value = _value(said)
        if field in _READERS:
            part = _READERS[field](value, field)
            made |= part
            asks = asks or field in ("gpu", "gpuDevices", "gpuMemory")
            found.carry(f"spec.{field}", value, ", ".join(part) or "as it is")
        elif field not in _HANDLED:
            found.leave(f"spec.{field}", value, _IGNORED.get(field, "It is not known here."))
    if not asks:
        made["devices"] = 0
    made["command"] = _command(spec)
    env = _env(spec, found)
    if env:
        made["env"] = env
    if "priorityClass" in spec:
        made |= priority_of(str(_value(spec["priorityClass"])), found, of="spec.priorityClass")
    return made | _replicas(spec, made, found)


def reads(thing: Json) -> bool:
    """Test whether an object is a workload of Run:ai."""
    group, kind = kind_of(thing)
    return group == GROUP and kind in KINDS


def _value(said: Any) -> Any:
    """Return the value of a field, which is written as {value: ...}."""
    return said["value"] if isinstance(said, dict) and set(said) == {"value"} else said


def _project(thing: Json) -> str:
    label = at(thing, "metadata", "labels", "project")
    namespace = at(thing, "metadata", "namespace")
    return str(label or str(namespace or "").removeprefix("runai-"))


def _gpu(value: Any, field: str) -> Json:
    mgpu = thousandths(str(value), of=field)
    if mgpu <= 1000:
        return {"devices": 1, "request_mgpu": mgpu} if mgpu else {"devices": 0}
    if mgpu % 1000:
        raise ImportRefused(f"{field}: above one GPU only whole ones can be asked for.")
    return {"devices": mgpu // 1000, "request_mgpu": 1000}


_READERS: dict[str, Callable[[Any, str], Json]] = {
    "gpu": _gpu,
    "gpuDevices": lambda value, field: _gpu(whole(value, field, high=1024), field),
    "gpuMemory": lambda value, field: {
        "devices": 1,
        "gpu_memory_mib": mebibytes(str(value), of=field, default="M"),
    },
    "cpu": lambda value, field: {"cpu_milli": thousandths(str(value), of=field)},
    "memory": lambda value, field: {"memory_mib": mebibytes(str(value), of=field)},
    "terminationGracePeriodSeconds": lambda value, field: {
        "grace_s": min(300, whole(value, field))
    },
    "backoffLimit": lambda value, field: {"max_attempts": whole(value, field, high=32_766) + 1},
    "preemptible": lambda value, field: {"preemptible": str(value).lower() in ("true", "yes")},
    "nodePools": lambda value, field: {"pool": _one_pool(value)},
}
_HANDLED = frozenset(
    {
        "name",
        "command",
        "arguments",
        "environment",
        "priorityClass",
        "numWorkers",
        "workers",
        "noMaster",
        "minScale",
        "maxScale",
        "parallelism",
        "completions",
    }
)


def _one_pool(value: Any) -> str:
    pools = str(value).replace(",", " ").split() if not isinstance(value, list) else value
    if len(pools) != 1:
        raise ImportRefused("nodePools: work belongs to one node pool. Name one.")
    return str(pools[0])


def _command(spec: Json) -> list[str]:
    parts: list[str] = []
    for field in ("command", "arguments"):
        said = _value(spec.get(field))
        if isinstance(said, list):
            parts += [str(part) for part in said]
        elif said:
            try:
                parts += shlex.split(str(said))
            except ValueError as error:
                raise ImportRefused(f"{field}: the quotes don't match: {error}.") from error
    if not parts or not _value(spec.get("command")):
        raise ImportRefused(
            "There is no command: that of the image is not known here. Write it out."
        )
    return parts


def _env(spec: Json, found: Found) -> dict[str, str]:
    said = mapping(spec.get("environment"), "environment")
    env: dict[str, str] = {}
    for name, entry in mapping(said.get("items"), "environment.items").items():
        value = _value(entry)
        if isinstance(value, dict | list):
            found.leave(f"environment {name}", value, "Define a credential.")
        else:
            env[str(name)] = "" if value is None else str(value)
            found.carry(f"environment {name}", env[str(name)], "env")
    return env


def _replicas(spec: Json, made: Json, found: Found) -> Json:
    match made["kind"]:
        case "distributed":
            workers = _value(spec.get("numWorkers", spec.get("workers", 1)))
            master = 0 if _value(spec.get("noMaster")) in (True, "true") else 1
            count = whole(workers, "numWorkers", low=1, high=1023) + master
            found.carry("numWorkers", workers, f"min_replicas: {count}, started together")
            return {"min_replicas": count, "max_replicas": count}
        case "inference":
            low = whole(_value(spec.get("minScale", 1)), "minScale", high=1024)
            high = whole(_value(spec.get("maxScale", max(1, low))), "maxScale", low=1, high=1024)
            found.carry("minScale, maxScale", f"{low}, {high}", "min_replicas, max_replicas")
            return {"min_replicas": low, "max_replicas": high}
        case _:
            for field in ("parallelism", "completions"):
                if field in spec and whole(_value(spec[field]), field, low=1) > 1:
                    raise ImportRefused(f"{field}: a {made['kind']} has one replica.")
            return {}
