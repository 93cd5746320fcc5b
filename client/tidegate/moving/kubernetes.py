"""A Kubernetes Job or Pod as a submission, with the labels by which KAI and Kueue queue it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.moving.documents import at, items, kind_of, mapping, name_of, whole
from tidegate.moving.found import Found, ImportRefused, Json, mebibytes, thousandths, work_name

GPU = "nvidia.com/gpu"
MOST_GRACE_S = 300
#: Labels that name the queue, which is a project here.
QUEUES = ("kai.scheduler/queue", "runai/queue", "kueue.x-k8s.io/queue-name", "project")
#: Priority classes of KAI and Run:ai.
PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
#: Of a pod's spec: what means nothing here, with the reason.
_POD_IGNORED = {
    "restartPolicy": "Failed work is tried again as often as backoffLimit says.",
    "schedulerName": "Tidegate schedules it.",
    "serviceAccountName": "Work gets no Kubernetes account.",
    "serviceAccount": "Work gets no Kubernetes account.",
    "imagePullSecrets": "Images are not run: define an environment.",
    "volumes": "Define data sources.",
    "tolerations": "Nodes are chosen by labels and health.",
    "affinity": "Nodes are chosen by their labels: node_labels.",
    "topologySpreadConstraints": "Replicas are placed by the scheduler.",
    "securityContext": "Work runs as the engine's user.",
    "initContainers": "Do what they do at the beginning of the command.",
    "hostNetwork": "There is no network of its own to leave.",
    "hostIPC": "Processes of one node share memory anyway.",
    "dnsPolicy": "Names are those of the machine.",
    "automountServiceAccountToken": "Work gets no Kubernetes account.",
    "enableServiceLinks": "Work gets a clean environment.",
    "activeDeadlineSeconds": "How long work may run is set by an admin for its project.",
    "runtimeClassName": "Images are not run: define an environment.",
}
_POD_READ = frozenset(
    {"containers", "nodeSelector", "priorityClassName", "terminationGracePeriodSeconds"}
)
_JOB_IGNORED = {
    "ttlSecondsAfterFinished": "What has ended stays in the list until it is deleted.",
    "activeDeadlineSeconds": "How long work may run is set by an admin for its project.",
    "suspend": "It waits for its turn from now on.",
    "completionMode": "Each replica has its number in RANK.",
    "manualSelector": "There are no selectors.",
    "selector": "There are no selectors.",
    "podFailurePolicy": "Every exit that is not 0 is a failure.",
    "managedBy": "Tidegate runs it.",
}
_CONTAINER_IGNORED = {
    "image": "Images are not run: define an environment with what it holds.",
    "imagePullPolicy": "Images are not run: define an environment.",
    "volumeMounts": "Define data sources.",
    "ports": "Ports are given by the engine: {port} in a service's command.",
    "workingDir": "Work begins in a folder of its own; an environment may name one below it.",
    "envFrom": "Define a credential, or name the values.",
    "securityContext": "Work runs as the engine's user.",
    "livenessProbe": "A process that ends is seen at once.",
    "startupProbe": "See readiness_path of a service.",
    "readinessProbe": "See readiness_path of a service.",
    "lifecycle": "SIGTERM and the grace are the same.",
    "stdin": "There is no standard input.",
    "tty": "There is no terminal.",
    "terminationMessagePath": "What it prints is kept for it: tidegate logs.",
    "terminationMessagePolicy": "What it prints is kept for it: tidegate logs.",
}
_CONTAINER_READ = frozenset({"name", "command", "args", "env", "resources"})


def read_job(thing: Json, found: Found) -> Json:
    """Return the submission of a Job.

    Raises:
        ImportRefused: what can't be read or has no equal here.
    """
    spec = mapping(thing.get("spec"), "spec")
    pod = mapping(at(spec, "template"), "spec.template")
    made = _pod(pod, thing, found, prefix="spec.template.spec")
    count = whole(spec.get("parallelism", 1), "spec.parallelism", low=1, high=1024)
    completions = whole(spec.get("completions", count), "spec.completions", low=1)
    if completions != count:
        raise ImportRefused(
            f"spec.completions {completions} with parallelism {count} is a queue of its own: submit one "
            "workload for each completion."
        )
    if count > 1:
        made |= {"kind": "distributed", "min_replicas": count, "max_replicas": count}
        found.carry("spec.parallelism", count, f"min_replicas: {count}, started together")
    if "backoffLimit" in spec:
        attempts = whole(spec["backoffLimit"], "spec.backoffLimit", high=32_766) + 1
        made["max_attempts"] = attempts
        found.carry("spec.backoffLimit", spec["backoffLimit"], f"max_attempts: {attempts}")
    read = {"template", "parallelism", "completions", "backoffLimit"}
    _leave(spec, "spec", found, ignored=_JOB_IGNORED, read=read)
    return made


def read_pod(thing: Json, found: Found) -> Json:
    """Return the submission of a Pod.

    Raises:
        ImportRefused: as ``read_job``.
    """
    return _pod(thing, thing, found, prefix="spec")


def _pod(pod: Json, thing: Json, found: Found, *, prefix: str) -> Json:
    spec = mapping(pod.get("spec"), prefix)
    containers = items(spec.get("containers"), f"{prefix}.containers")
    if len(containers) != 1:
        raise ImportRefused(f"{prefix}.containers holds {len(containers)}: work is one command.")
    container = mapping(containers[0], f"{prefix}.containers[0]")
    made: Json = {
        "name": work_name(name_of(thing), found, of="metadata.name"),
        "kind": "training",
        **_command(container),
        **_resources(container, pod, thing, found),
        **_queue(pod, thing, found),
    }
    env = _env(container, found)
    if env:
        made["env"] = env
    if "terminationGracePeriodSeconds" in spec:
        seconds = whole(spec["terminationGracePeriodSeconds"], "terminationGracePeriodSeconds")
        made["grace_s"] = min(MOST_GRACE_S, seconds)
        found.carry("terminationGracePeriodSeconds", seconds, f"grace_s: {made['grace_s']}")
    labels = mapping(spec.get("nodeSelector"), f"{prefix}.nodeSelector")
    if labels:
        made["node_labels"] = {str(name): str(value) for name, value in labels.items()}
        found.carry("nodeSelector", labels, "node_labels")
    name = spec.get("priorityClassName")
    if name is not None:
        made |= priority_of(str(name), found, of="priorityClassName")
    _leave(spec, prefix, found, ignored=_POD_IGNORED, read=_POD_READ)
    _leave(container, "containers[0]", found, ignored=_CONTAINER_IGNORED, read=_CONTAINER_READ)
    return made


def priority_of(name: str, found: Found, *, of: str) -> Json:
    """Return the priority of a class of KAI and Run:ai; of another one nothing."""
    if name not in PRIORITIES:
        found.leave(
            of, name, "Only the classes train, build-preemptible, build, inference are known."
        )
        return {}
    found.carry(of, name, f"priority: {PRIORITIES[name]}")
    return {"priority": PRIORITIES[name]}


def _command(container: Json) -> Json:
    command = [str(part) for part in items(container.get("command"), "command")]
    command += [str(part) for part in items(container.get("args"), "args")]
    if not command or not container.get("command"):
        raise ImportRefused(
            "The container has no command: that of its image is not known here. Write it out."
        )
    return {"command": command}


def _env(container: Json, found: Found) -> dict[str, str]:
    env = {}
    for number, each in enumerate(items(container.get("env"), "env")):
        pair = mapping(each, f"env[{number}]")
        name = pair.get("name")
        if not isinstance(name, str):
            raise ImportRefused(f"env[{number}] has no name.")
        if "value" in pair or "valueFrom" not in pair:
            env[name] = str(pair.get("value", ""))
            found.carry(f"env {name}", env[name], "env")
        else:
            found.leave(f"env {name}", "valueFrom", "Define a credential.")
    return env


def _resources(container: Json, pod: Json, thing: Json, found: Found) -> Json:
    asked = {
        **mapping(at(container, "resources", "requests"), "resources.requests"),
        **mapping(at(container, "resources", "limits"), "resources.limits"),
    }
    made: Json = {}
    readers: dict[str, Callable[[Any], Json]] = {
        GPU: lambda value: _devices(whole(value, GPU, high=1024)),
        "cpu": lambda value: {"cpu_milli": thousandths(str(value), of="cpu")},
        "memory": lambda value: {"memory_mib": _bytes(value)},
    }
    for name, value in asked.items():
        if name not in readers:
            found.leave(f"resources {name}", value, "Only NVIDIA GPUs, CPU and memory are counted.")
            continue
        read = readers[name](value)
        made |= read
        found.carry(f"resources {name}", value, ", ".join(f"{k}: {v}" for k, v in read.items()))
    return {"devices": 0} | made | _share(pod, thing, found)


def _bytes(value: Any) -> int:
    text = str(value)
    if text.isdigit():  # bytes
        return -(-int(text) // 1024**2)
    return mebibytes(text, of="memory")


def _devices(count: int) -> Json:
    return {"devices": count, "request_mgpu": 1000} if count else {"devices": 0}


def _share(pod: Json, thing: Json, found: Found) -> Json:
    """Return what KAI's annotations ask for: a share of a GPU, or an amount of its memory."""
    noted = {
        **mapping(at(thing, "metadata", "annotations"), "annotations"),
        **mapping(at(pod, "metadata", "annotations"), "annotations"),
    }
    devices = whole(noted.get("gpu-fraction-num-devices", 1), "gpu-fraction-num-devices", low=1)
    if "gpu-fraction" in noted:
        mgpu = thousandths(str(noted["gpu-fraction"]), of="gpu-fraction")
        if not 0 < mgpu < 1000:
            raise ImportRefused(f"gpu-fraction: {noted['gpu-fraction']!r} is no share below 1.")
        found.carry("gpu-fraction", noted["gpu-fraction"], f"request_mgpu: {mgpu}")
        return {"devices": devices, "request_mgpu": mgpu}
    if "gpu-memory" in noted:
        mib = whole(noted["gpu-memory"], "gpu-memory", low=1, high=10**7)
        found.carry("gpu-memory", noted["gpu-memory"], f"gpu_memory_mib: {mib}")
        return {"devices": devices, "gpu_memory_mib": mib}
    return {}


def _queue(pod: Json, thing: Json, found: Found) -> Json:
    labels = {
        **mapping(at(pod, "metadata", "labels"), "labels"),
        **mapping(at(thing, "metadata", "labels"), "labels"),
    }
    for name in QUEUES:
        if name in labels:
            found.carry(name, labels[name], f"project: {labels[name]}")
            return {"project": str(labels[name])}
    namespace = at(thing, "metadata", "namespace")
    if namespace is None:
        return {}
    found.carry("metadata.namespace", namespace, f"project: {namespace}")
    return {"project": str(namespace)}


def _leave(
    spec: Json,
    prefix: str,
    found: Found,
    *,
    ignored: dict[str, str],
    read: frozenset[str] | set[str],
) -> None:
    for name, value in spec.items():
        if name not in read:
            found.leave(f"{prefix}.{name}", value, ignored.get(str(name), "It is not known here."))


#: Kinds of Kubernetes by group and name.
KINDS: dict[tuple[str, str], Callable[[Json, Found], Json]] = {
    ("batch", "Job"): read_job,
    ("", "Pod"): read_pod,
}


def reads(thing: Json) -> bool:
    """Test whether an object is one of these kinds."""
    return kind_of(thing) in KINDS
