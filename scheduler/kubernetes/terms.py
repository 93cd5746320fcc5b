"""What the Kubernetes engine is told by settings, and the names by which it knows its own objects again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from scheduler.engines.base import EngineUnreachable, ReplicaKey

#: Labels of pods. ``owner`` is the database whose replicas they are.
MANAGED_BY, OWNER = "app.kubernetes.io/managed-by", "tidegate/owner"
REPLICA, WORKLOAD = "tidegate/replica", "tidegate/workload"
#: Labels that an administrator gives to nodes: which pool, and how many stand-ins where there is no GPU.
POOL, VIRTUAL_DEVICES = "tidegate/pool", "tidegate/virtual-devices"
#: How a pod was asked to end, as JSON.
STOP = "tidegate/stop"
START_TIMEOUT = "tidegate/start-timeout-s"
LOG_LIMIT = "tidegate/log-limit-mib"
#: A pod that has ended stays until its end is recorded.
FINALIZER = "tidegate/recorded"
CONTAINER = "work"
SERVICE_PORT, MEETING_PORT = 8080, 29_500

_RESOURCE = re.compile(r"[a-z0-9][-.a-z0-9]*/[A-Za-z0-9][-._A-Za-z0-9]*")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class BadTerms(EngineUnreachable):
    """A setting of the engine can't be used; the message names it."""


class Sharing(StrEnum):
    """How the GPUs of a node pool are handed out."""

    WHOLE = "whole"  # nvidia.com/gpu: the device plugin chooses among what is free
    HAMI = "hami"  # shares of memory and cores of the device that we chose, kept by HAMi
    TIME_SLICING = "time-slicing"  # turns on a device; nobody keeps the shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Where pods are made and how."""

    owner: str
    namespace: str
    image: str
    folder: Path
    sharing: Sharing = Sharing.WHOLE
    sharing_by_pool: dict[str, Sharing] = field(default_factory=dict)
    time_sliced_resource: str = "nvidia.com/gpu"
    #: A claim that all nodes may write to, and where this process sees it; empty where there is none.
    claim: str = ""
    shared_dir: Path | None = None
    #: The headless service that gives members of a gang their names.
    subdomain: str = "tidegate-work"
    #: A node that Kubernetes has not heard of for so long is gone. 0: only where an administrator says so.
    gone_after_s: int = 0

    def sharing_of(self, pool_name: str) -> Sharing:
        """Return how the GPUs of a pool are handed out."""
        return self.sharing_by_pool.get(pool_name, self.sharing)

    def pod_name(self, key: ReplicaKey) -> str:
        """Return the one name that the pod of a key can have."""
        return f"tidegate-{self.owner.replace('-', '')[:8]}-{key}"

    @property
    def selector(self) -> str:
        """What selects the pods of this database."""
        return f"{MANAGED_BY}=tidegate,{OWNER}={self.owner}"


class Settings(Protocol):
    """The settings that terms are read from, as ``dashboard/settings.py`` names them."""

    KUBERNETES_CONFIG: str
    KUBERNETES_CONTEXT: str
    KUBERNETES_NAMESPACE: str
    KUBERNETES_IMAGE: str
    KUBERNETES_SHARING: list[str]
    KUBERNETES_TIME_SLICED_RESOURCE: str
    KUBERNETES_VOLUME_CLAIM: str
    KUBERNETES_SHARED: str
    KUBERNETES_GONE_AFTER_S: int


def read_terms(given: Settings, *, owner: str, folder: Path) -> Terms:
    """Return the terms that settings give.

    Raises:
        BadTerms: one of them can't be used.
    """
    claim, shared = given.KUBERNETES_VOLUME_CLAIM, given.KUBERNETES_SHARED
    names = {"NAMESPACE": given.KUBERNETES_NAMESPACE, "VOLUME_CLAIM": claim or "none"}
    for name, value in names.items():
        if not _NAME.fullmatch(value):
            raise BadTerms(
                f"TIDEGATE_KUBERNETES_{name} is {value!r}; names in Kubernetes are at most 63 "
                "lower-case letters, digits and hyphens"
            )
    if not given.KUBERNETES_IMAGE:
        raise BadTerms("set TIDEGATE_KUBERNETES_IMAGE: the image in which work runs")
    if shared and not claim:
        raise BadTerms("TIDEGATE_KUBERNETES_SHARED is set without TIDEGATE_KUBERNETES_VOLUME_CLAIM")
    if not _RESOURCE.fullmatch(given.KUBERNETES_TIME_SLICED_RESOURCE):
        raise BadTerms(
            f"TIDEGATE_KUBERNETES_TIME_SLICED_RESOURCE is {given.KUBERNETES_TIME_SLICED_RESOURCE!r}; "
            "it must be what nodes offer, such as nvidia.com/gpu.shared"
        )
    _check_way(config=given.KUBERNETES_CONFIG, context=given.KUBERNETES_CONTEXT)
    default, by_pool = _read_sharing(given.KUBERNETES_SHARING)
    return Terms(
        owner=owner,
        namespace=given.KUBERNETES_NAMESPACE,
        image=given.KUBERNETES_IMAGE,
        folder=folder,
        sharing=default,
        sharing_by_pool=by_pool,
        claim=claim,
        shared_dir=Path(shared) if shared else None,
        gone_after_s=given.KUBERNETES_GONE_AFTER_S,
        time_sliced_resource=given.KUBERNETES_TIME_SLICED_RESOURCE,
    )


def _check_way(*, config: str, context: str) -> None:
    """Refuse what can't lead to a cluster. Without a file it is the pod's service account."""
    if context and not config:
        raise BadTerms("TIDEGATE_KUBERNETES_CONTEXT is set without TIDEGATE_KUBERNETES_CONFIG")
    if config and not Path(config).is_file():
        raise BadTerms(f"TIDEGATE_KUBERNETES_CONFIG is {config!r}, and there is no such file")


def _read_sharing(words: list[str]) -> tuple[Sharing, dict[str, Sharing]]:
    """Read ``whole`` or ``whole, inference=hami``."""
    default, by_pool = Sharing.WHOLE, {}
    for word in words:
        pool, is_of_pool, name = word.rpartition("=")
        try:
            chosen = Sharing(name.strip())
        except ValueError as error:
            known = ", ".join(Sharing)
            raise BadTerms(
                f"TIDEGATE_KUBERNETES_SHARING holds {word!r}; a way of sharing is one of {known}, "
                "or POOL=WAY"
            ) from error
        if is_of_pool:
            by_pool[pool.strip()] = chosen
        else:
            default = chosen
    return default, by_pool
