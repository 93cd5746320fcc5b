"""What a supervisor is told to run, made from what the tick wants. Here a spec may be refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from scheduler.engines.base import LaunchRefused, LaunchSpec
from scheduler.engines.environment import build_environment
from scheduler.engines.records import Order

_STORAGE_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


def is_storage_key(text: str) -> bool:
    """Test whether a text can name a workload's directories."""
    return _STORAGE_KEY.fullmatch(text) is not None


def make_order(
    *,
    spec: LaunchSpec,
    engine_id: str,
    storage_root: Path,
    log_dir: Path,
    wake_path: str,
    port: int | None,
) -> Order:
    """Return the order for a spec, and make the workload's directories where they are missing.

    Raises:
        LaunchRefused: this machine can never run it.
    """
    if not is_storage_key(spec.storage_key):
        raise LaunchRefused(f"{spec.storage_key!r} can't name a directory")
    work_dir = storage_root / spec.storage_key / "work"
    checkpoint_dir = storage_root / spec.storage_key / "checkpoints"
    for directory in (work_dir, checkpoint_dir):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    env = build_environment(
        spec=spec,
        engine_id=engine_id,
        work_dir=str(work_dir),
        checkpoint_dir=str(checkpoint_dir),
        port=port,
    )
    _refuse_missing_command(spec, env=env, work_dir=work_dir)
    return Order(
        key=str(spec.key),
        workload_id=spec.workload_id,
        node_name=spec.node_name,
        command=list(spec.command),
        env=env,
        cwd=str(work_dir),
        log_dir=str(log_dir),
        wake_path=wake_path,
        port=port,
        readiness_path="" if spec.service is None else spec.service.readiness_path,
        start_timeout_s=0 if spec.service is None else spec.service.start_timeout_s,
        master_port=None if spec.gang is None else spec.gang.master_port,
        grace_s=spec.grace_s,
        log_limit_mib=spec.log_limit_mib,
        wall_mib=spec.gpu_memory_mib if spec.devices else None,
        wall_is_resident=any(device.virtual for device in spec.devices),
        wall_stops=spec.memory_wall,
    )


def _refuse_missing_command(spec: LaunchSpec, *, env: dict[str, str], work_dir: Path) -> None:
    if not spec.command:
        raise LaunchRefused("there is no command to run")
    if any("\0" in word for word in spec.command):
        raise LaunchRefused("a command can't hold a NUL character")
    name = spec.command[0]
    path = str(work_dir / name) if "/" in name else name
    if shutil.which(path, path=env["PATH"]) is None:
        raise LaunchRefused(f"{name}: no such command on this machine")
