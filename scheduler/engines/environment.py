"""The environment of a replica: made from nothing, so that nothing of the server's can leak in."""

from __future__ import annotations

import os
import sys

from scheduler.engines.base import LaunchRefused, LaunchSpec

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Set by the engine alone: what a user gives under these names does not count.
_RESERVED = frozenset(
    (
        "CUDA_VISIBLE_DEVICES",
        "CHECKPOINT_DIR",
        "RESTART_COUNT",
        "HOST",
        "PORT",
        "RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    )
)
_RESERVED_PREFIX = "TIDEGATE_"


def build_environment(
    *,
    spec: LaunchSpec,
    engine_id: str,
    work_dir: str,
    checkpoint_dir: str,
    port: int | None,
    host: str,
) -> dict[str, str]:
    """Return all that the replica's process gets to see.

    Raises:
        LaunchRefused: a name or value that no environment can hold.
    """
    env = _base(work_dir=work_dir)
    env.update(from_user(spec))
    env.update(_granted(spec))
    env["CHECKPOINT_DIR"] = checkpoint_dir
    env["TIDEGATE_ENGINE"] = engine_id
    env.update(about_run(spec))
    env.update(tokens(spec))
    if port is not None:
        env["HOST"] = host
        env["PORT"] = str(port)
    if spec.gang is not None:
        env["RANK"] = str(spec.gang.rank)
        env["WORLD_SIZE"] = str(spec.gang.world_size)
        env["MASTER_ADDR"] = spec.gang.master_addr
        env["MASTER_PORT"] = str(spec.gang.master_port)
    return env


def about_run(spec: LaunchSpec) -> dict[str, str]:
    """Return what tells a replica which run it is; nothing of it is secret."""
    env = {"RESTART_COUNT": str(spec.restart_count), "TIDEGATE_REPLICA": str(spec.key)}
    if spec.progress_url:
        env["TIDEGATE_PROGRESS_URL"] = spec.progress_url
    if spec.workspace_path:
        env["TIDEGATE_WORKSPACE_PATH"] = spec.workspace_path
    return env


def tokens(spec: LaunchSpec) -> dict[str, str]:
    """Return the secrets that are a replica's own."""
    env = {}
    if spec.progress_url:
        env["TIDEGATE_PROGRESS_TOKEN"] = spec.progress_token
    if spec.workspace_path:
        env["TIDEGATE_WORKSPACE_SECRET"] = env["JUPYTER_TOKEN"] = spec.workspace_secret
    return env


def amounts(spec: LaunchSpec) -> dict[str, str]:
    """Return how much was granted, with the memory as the total that the replica is to see."""
    env = {
        "TIDEGATE_GPU_MILLI": str(spec.gpu_mgpu),
        "TIDEGATE_GPU_MEMORY_MIB": str(spec.gpu_memory_mib),
    }
    if any(device.virtual for device in spec.devices):
        env["TIDEGATE_VIRTUAL_DEVICES"] = "1"
    return env


def _base(*, work_dir: str) -> dict[str, str]:
    own_bin = os.path.dirname(sys.executable)
    env = {"PATH": f"{own_bin}:{_SYSTEM_PATH}", "HOME": work_dir}
    env["LANG"] = os.environ.get("LANG", "C.UTF-8")
    if "TZ" in os.environ:
        env["TZ"] = os.environ["TZ"]
    return env


def from_user(spec: LaunchSpec) -> dict[str, str]:
    """Return what the user gives, without names that the engine alone sets.

    Raises:
        LaunchRefused: a name or value that no environment can hold.
    """
    for name, value in spec.env:
        if not name or "=" in name or "\0" in name + value:
            raise LaunchRefused(f"{name!r} can't be the name or value of an environment variable")
    return {
        name: value
        for name, value in spec.env
        if name not in _RESERVED and not name.startswith(_RESERVED_PREFIX)
    }


def _granted(spec: LaunchSpec) -> dict[str, str]:
    """Tell what was granted: which devices, and how much of them."""
    devices = spec.devices
    virtual = any(device.virtual for device in devices)
    names = (str(device.index) if virtual else device.uuid for device in devices)
    env = {"CUDA_VISIBLE_DEVICES": ",".join(names), **amounts(spec)}
    if devices and not virtual:
        env.update(_shared_by_mps(spec))
    return env


def _shared_by_mps(spec: LaunchSpec) -> dict[str, str]:
    """Return what has CUDA itself keep the slice, where the MPS control daemon runs."""
    pipe_directory = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    if not os.path.exists(os.path.join(pipe_directory, "control")):
        return {}
    share_permille = min(device.request_mgpu for device in spec.devices)
    limits = (f"{place}={device.memory_mib}M" for place, device in enumerate(spec.devices))
    return {
        "CUDA_MPS_PIPE_DIRECTORY": pipe_directory,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(max(share_permille // 10, 1)),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ",".join(limits),
    }
