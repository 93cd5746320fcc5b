"""The engines and the sampler of this process. Made once; they hold no truth of their own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from django.conf import settings

from scheduler import models
from scheduler.engines.base import Engine
from scheduler.engines.claims import claim
from scheduler.engines.registry import make_engine
from scheduler.kubernetes.engine import KubernetesEngine
from scheduler.kubernetes.link import ApiLink
from scheduler.kubernetes.sampler import SilentSampler
from scheduler.kubernetes.terms import read_terms
from scheduler.remote.engine import RayEngine
from scheduler.remote.link import RayLink
from scheduler.remote.sampler import RemoteSampler
from scheduler.telemetry.base import Sampler
from scheduler.telemetry.registry import make_sampler

REMOTE, PODS = "ray", "kubernetes"


@cache
def engine(name: str) -> Engine:
    """Return this process's engine of that name (the ``engine`` field of nodes)."""
    if name == REMOTE:
        return _ray_engine()
    if name == PODS:
        return _kubernetes_engine()
    folder = Path(settings.WORKLOADS_DIR)
    if name == "local":
        claim(folder=folder, owner=_owner())
    return make_engine(name, data_dir=folder)


def named_by_settings() -> set[str]:
    """Return the engines that are asked although no node of theirs is written down yet."""
    named = {REMOTE: settings.RAY_ADDRESS, PODS: settings.KUBERNETES_IMAGE}
    return {name for name, is_wanted in named.items() if is_wanted}


@cache
def sampler(name: str) -> Sampler:
    """Return this process's sampler for the replicas of the engine ``name``."""
    if name == REMOTE:
        return RemoteSampler(_ray_engine())
    if name == PODS:
        return SilentSampler()
    return make_sampler(name)


@cache
def _ray_engine() -> RayEngine:
    lease_s = settings.RAY_LEASE_S
    link = RayLink(
        address=settings.RAY_ADDRESS,
        token_file=settings.RAY_TOKEN_FILE,
        lease_s=lease_s,
        owner=_owner(),
    )
    return RayEngine(link=link, lease_s=lease_s)


@cache
def _kubernetes_engine() -> KubernetesEngine:
    owner = _owner()
    terms = read_terms(
        settings, owner=owner, folder=Path(settings.WORKLOADS_DIR) / "kubernetes" / owner
    )
    return KubernetesEngine(api=kubernetes_link(), terms=terms)


@cache
def kubernetes_link() -> ApiLink:
    """Return this process's way to the API server of Kubernetes."""
    return ApiLink(kubeconfig=settings.KUBERNETES_CONFIG, context=settings.KUBERNETES_CONTEXT)


def _owner() -> str:
    """Return whose running work it is: this database's."""
    return str(models.Cluster.objects.one().uid)
