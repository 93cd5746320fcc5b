"""A launch as objects of Kubernetes: the pod, and the secret of its variables. A spec may be refused."""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, Decimal
from pathlib import PurePosixPath

from scheduler.core.vocabulary import SourceType
from scheduler.engines.base import DeviceGrant, LaunchRefused, LaunchSpec, Mount
from scheduler.engines.environment import about_run, amounts, from_user, tokens
from scheduler.engines.mounts import variables
from scheduler.engines.orders import is_storage_key
from scheduler.kubernetes import terms as words
from scheduler.kubernetes.link import Json
from scheduler.kubernetes.nodes import GPU
from scheduler.kubernetes.terms import Sharing, Terms

HOME = "/workload"
WORK_DIR, CHECKPOINT_DIR = f"{HOME}/work", f"{HOME}/checkpoints"
WHOLE_MGPU = 1000
HAMI_CHOICE = "nvidia.com/use-gpuuuid"
HAMI_SCHEDULER = "hami-scheduler"
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_SHARE = re.compile(r"\{slice:(0\.\d{1,4}|1)\}")


def make_pod(spec: LaunchSpec, *, terms: Terms, pool_name: str) -> Json:
    """Return the pod of a replica, bound to its node.

    Raises:
        LaunchRefused: it can never run on this cluster.
    """
    if not spec.command:
        raise LaunchRefused("there is no command to run")
    if not is_storage_key(spec.storage_key):
        raise LaunchRefused(f"{spec.storage_key!r} can't name a directory")
    sharing = terms.sharing_of(pool_name)
    limits, hints = _devices(spec, terms=terms, sharing=sharing)
    volumes, mounts = _volumes(spec, terms)
    container = _container(spec, terms=terms, sharing=sharing, limits=limits, mounts=mounts)
    inside: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": max(1, spec.grace_s),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # The first process of a container ignores SIGTERM unless it asks for it; this one is not the first.
        "shareProcessNamespace": True,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        # What becomes of work on a node that is silent is decided here, not by Kubernetes after 300 s.
        "tolerations": [
            {"key": f"node.kubernetes.io/{sign}", "operator": "Exists", "effect": "NoExecute"}
            for sign in ("not-ready", "unreachable")
        ],
        "containers": [container],
        "volumes": volumes,
        **_place(spec, by_hami=HAMI_CHOICE in hints),
    }
    if spec.gang is not None:
        inside["hostname"] = _gang_name(spec, spec.gang.rank)
        inside["subdomain"] = terms.subdomain
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _names(spec, terms, hints),
        "spec": inside,
    }


def make_secret(spec: LaunchSpec, *, terms: Terms, pod_uid: str) -> Json | None:
    """Return the secret that holds a replica's own variables, or None where it has none.

    It belongs to the pod: Kubernetes removes it together with it.
    """
    held = _held(spec)
    if not held:
        return None
    name = terms.pod_name(spec.key)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": terms.namespace,
            "labels": {words.MANAGED_BY: "tidegate", words.OWNER: terms.owner},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod_uid}],
        },
        "immutable": True,
        "type": "Opaque",
        "stringData": held,
    }


def _names(spec: LaunchSpec, terms: Terms, hints: dict[str, str]) -> Json:
    """Return by what the pod is found again, and what holds it until its end is recorded."""
    return {
        "name": terms.pod_name(spec.key),
        "namespace": terms.namespace,
        "labels": {
            words.MANAGED_BY: "tidegate",
            words.OWNER: terms.owner,
            words.REPLICA: str(spec.key),
            words.WORKLOAD: str(spec.workload_id),
        },
        "annotations": {**hints, **_facts(spec)},
        "finalizers": [words.FINALIZER],
    }


def _container(
    spec: LaunchSpec, *, terms: Terms, sharing: Sharing, limits: Json, mounts: list[Json]
) -> Json:
    """Return the one container: what runs, with what, and how one sees that a service answers."""
    container: Json = {
        "name": words.CONTAINER,
        "image": terms.image,
        "command": [_filled(part, spec, _seen_part(spec, sharing)) for part in spec.command],
        "env": [*_plain(spec, terms), *_secret(spec, terms)],
        "workingDir": _working_dir(spec),
        "resources": {"limits": limits},
        "volumeMounts": mounts,
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    if spec.service is not None:
        container["ports"] = [{"name": "service", "containerPort": words.SERVICE_PORT}]
        container["readinessProbe"] = {
            "httpGet": {"path": spec.service.readiness_path, "port": words.SERVICE_PORT},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 3,
        }
    return container


def _facts(spec: LaunchSpec) -> dict[str, str]:
    """Return what whoever watches the pod has to know, also after a restart."""
    facts = {words.LOG_LIMIT: str(spec.log_limit_mib)}
    if spec.service is not None:
        facts[words.START_TIMEOUT] = str(spec.service.start_timeout_s)
    return facts


def _place(spec: LaunchSpec, *, by_hami: bool) -> Json:
    """Bind the pod. HAMi keeps shares only of pods that its scheduler placed: that one gets no choice."""
    if not by_hami:
        return {"nodeName": spec.node_name}
    here = {"key": "metadata.name", "operator": "In", "values": [spec.node_name]}
    only = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    return {
        "schedulerName": HAMI_SCHEDULER,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only}},
    }


# -- devices -----------------------------------------------------------------------------------------


def _devices(spec: LaunchSpec, *, terms: Terms, sharing: Sharing) -> tuple[Json, dict[str, str]]:
    """Return the limits that ask for what was granted, and annotations that choose the devices."""
    real = [device for device in spec.devices if not device.virtual]
    if not real:
        return {}, {}
    match sharing:
        case Sharing.WHOLE:
            if any(device.request_mgpu < WHOLE_MGPU for device in real):
                raise LaunchRefused(
                    "this node pool hands out whole GPUs only (TIDEGATE_KUBERNETES_SHARING)"
                )
            return {GPU: str(len(real))}, {}
        case Sharing.TIME_SLICING:
            return {terms.time_sliced_resource: str(len(real))}, {}
        case Sharing.HAMI:
            return _by_hami(real)


def _by_hami(devices: list[DeviceGrant]) -> tuple[Json, dict[str, str]]:
    if len({(device.request_mgpu, device.memory_mib) for device in devices}) > 1:
        raise LaunchRefused("HAMi gives a replica the same share of each of its GPUs, these differ")
    if any("/" in device.uuid for device in devices):
        raise LaunchRefused("the devices of this node are not registered by HAMi")
    percent = max(1, devices[0].request_mgpu * 100 // WHOLE_MGPU)
    limits = {
        GPU: str(len(devices)),
        "nvidia.com/gpumem-percentage": str(percent),
        "nvidia.com/gpucores": str(percent),
    }
    return limits, {HAMI_CHOICE: ",".join(device.uuid for device in devices)}


# -- environment and command -------------------------------------------------------------------------


def _plain(spec: LaunchSpec, terms: Terms) -> list[Json]:
    """Return variables that anyone who may read pods may read."""
    env = {
        "HOME": WORK_DIR,
        "CHECKPOINT_DIR": CHECKPOINT_DIR,
        "TIDEGATE_ENGINE": terms.owner,
        **about_run(spec),
        **amounts(spec),
        **variables(mounts=spec.mounts, work_dir=WORK_DIR),
    }
    if any(device.virtual for device in spec.devices):
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(device.index) for device in spec.devices)
    if spec.gang is not None:
        env["RANK"] = str(spec.gang.rank)
        env["WORLD_SIZE"] = str(spec.gang.world_size)
        env["MASTER_ADDR"] = f"{_gang_name(spec, 0)}.{terms.subdomain}.{terms.namespace}.svc"
        env["MASTER_PORT"] = str(spec.gang.master_port)
    found: list[Json] = []
    if spec.service is not None:
        env["PORT"] = str(words.SERVICE_PORT)
        own_address = {"fieldRef": {"fieldPath": "status.podIP"}}
        found.append({"name": "HOST", "valueFrom": own_address})
    return [*found, *({"name": n, "value": _literal(v)} for n, v in sorted(env.items()))]


def _secret(spec: LaunchSpec, terms: Terms) -> list[Json]:
    """Return references to what may be secret: all that the user gave, and the replica's tokens."""
    secret = terms.pod_name(spec.key)
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}}
        for name in sorted(_held(spec))
    ]


def _held(spec: LaunchSpec) -> dict[str, str]:
    held = {**from_user(spec), **tokens(spec)}
    for name in held:
        if not _VARIABLE.fullmatch(name):
            raise LaunchRefused(f"Kubernetes can't have an environment variable named {name!r}")
    return held


def _gang_name(spec: LaunchSpec, rank: int) -> str:
    return f"w{spec.workload_id}-a{spec.key.attempt}-r{rank}"


def _seen_part(spec: LaunchSpec, sharing: Sharing) -> Decimal:
    """Return which part of the memory that it sees a replica was granted: all of it, but with turns."""
    if sharing is not Sharing.TIME_SLICING or any(device.virtual for device in spec.devices):
        return Decimal(1)
    return Decimal(min((device.request_mgpu for device in spec.devices), default=1000)) / 1000


def _filled(part: str, spec: LaunchSpec, seen_part: Decimal) -> str:
    """Put name, address and shares in their places; what looks like a variable of a pod is the shell's."""
    if "\0" in part:
        raise LaunchRefused("a command can't hold a NUL character")
    part = _literal(part).replace("{name}", spec.workload_name).replace("{host}", "$(HOST)")
    part = part.replace("{port}", str(words.SERVICE_PORT))
    return _SHARE.sub(lambda found: _share(Decimal(found[1]), seen_part), part)


def _share(of_slice: Decimal, seen_part: Decimal) -> str:
    if seen_part == 1:
        return str(of_slice)
    return str((of_slice * seen_part).quantize(Decimal("0.001"), rounding=ROUND_DOWN))


def _literal(text: str) -> str:
    return text.replace("$(", "$$(")


def _working_dir(spec: LaunchSpec) -> str:
    path = PurePosixPath(spec.working_dir)
    if ".." in path.parts or path.is_absolute():
        raise LaunchRefused(f"{spec.working_dir!r} leads out of the workload's folder")
    return str(PurePosixPath(WORK_DIR) / path)


# -- data --------------------------------------------------------------------------------------------


def _volumes(spec: LaunchSpec, terms: Terms) -> tuple[list[Json], list[Json]]:
    """Return the volumes and where they are seen: the workload's folders, then its data sources."""
    own = {"name": "shared", "persistentVolumeClaim": {"claimName": terms.claim}}
    if not terms.claim:
        own = {"name": "shared", "emptyDir": {}}
    volumes = [own]
    mounts = [
        {
            "name": "shared",
            "mountPath": path,
            "subPath": f"storage/{spec.storage_key}/{PurePosixPath(path).name}",
        }
        for path in (WORK_DIR, CHECKPOINT_DIR)
    ]
    for place, mount in enumerate(spec.mounts):
        volume, seen = _data(mount, f"data-{place}", terms)
        volumes += [volume] if volume else []
        mounts.append({**seen, "mountPath": f"{WORK_DIR}/{mount.name}"})
    return volumes, mounts


def _data(mount: Mount, name: str, terms: Terms) -> tuple[Json | None, Json]:
    match mount.source:
        case SourceType.TREE:
            if not terms.claim:
                raise LaunchRefused(f"the data source {mount.name} needs a shared volume")
            tree = f"store/trees/{mount.get('digest')}"
            return None, {"name": "shared", "subPath": tree, "readOnly": True}
        case SourceType.HOST_PATH:
            path = PurePosixPath(mount.get("path"))
            if ".." in path.parts or not any(path.is_relative_to(top) for top in mount.within):
                raise LaunchRefused(
                    f"the data source {mount.name} leads out of the folders that may be mounted"
                )
            there = {"path": str(path), "type": "Directory"}
            return {"name": name, "hostPath": there}, {"name": name, "readOnly": True}
        case SourceType.NFS:
            export = {"server": mount.get("server"), "path": mount.get("path")}
            return {"name": name, "nfs": export}, {"name": name}
        case SourceType.GIT | SourceType.S3:
            raise LaunchRefused(
                f"the data source {mount.name} is fetched by its node's engine, which pods have not: "
                "keep it as uploaded files, or on a file system"
            )
