"""What a supervisor is told to run, made from what the tick wants. Here a spec may be refused."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

from scheduler.engines import fetch, mounts
from scheduler.engines.base import LaunchRefused, LaunchSpec
from scheduler.engines.environment import build_environment
from scheduler.engines.records import Errand, Fetch, Order
from scheduler.engines.seat import AT_HOME, Seat
from scheduler.engines.store import Store

_STORAGE_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_SHARE = re.compile(r"\{slice:(0\.\d{1,4}|1)\}")


def is_storage_key(text: str) -> bool:
    """Test whether a text can name a workload's directories."""
    return _STORAGE_KEY.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where a replica's own files, its output, and the directories of all workloads lie."""

    replica: str
    output: Path
    storage: Path


def make_order(
    *,
    spec: LaunchSpec,
    engine_id: str,
    folders: Folders,
    store: Store,
    wake_path: str,
    port: int | None,
    seat: Seat = AT_HOME,
) -> Order:
    """Return the order for a spec, and make the workload's directories where they are missing.

    Raises:
        LaunchRefused: this machine can never run it.
    """
    if not is_storage_key(spec.storage_key):
        raise LaunchRefused(f"{spec.storage_key!r} can't name a directory")
    work_dir = _make_directory(folders.storage / spec.storage_key / "work")
    checkpoint_dir = _make_directory(folders.storage / spec.storage_key / "checkpoints")
    fetches = mounts.place(mounts=spec.mounts, work_dir=work_dir, store=store)
    cwd = _find_cwd(work_dir, spec, is_complete=not fetches)
    env = build_environment(
        spec=spec,
        engine_id=engine_id,
        work_dir=str(work_dir),
        checkpoint_dir=str(checkpoint_dir),
        port=port,
        host=seat.host,
    )
    env.update(mounts.variables(mounts=spec.mounts, work_dir=str(work_dir)))
    _refuse_missing_command(spec, env=env, cwd=cwd, is_complete=not fetches)
    command = [_filled(part, spec=spec, env=env, port=port) for part in spec.command]
    errand = _errand_of(fetches, store=store, work_dir=work_dir, cwd=cwd, command=command)
    return Order(
        key=str(spec.key),
        workload_id=spec.workload_id,
        node_name=spec.node_name,
        command=command if errand is None else fetch.command_for(folders.replica),
        env=env,
        cwd=str(cwd if errand is None else work_dir),
        log_dir=str(folders.output),
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
        errand=errand,
        host=seat.host,
        lease=seat.lease,
        lease_s=seat.lease_s,
    )


def _make_directory(path: Path) -> Path:
    """Return a directory that only this user may enter, made where it is missing."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _errand_of(
    fetches: list[Fetch], *, store: Store, work_dir: Path, cwd: Path, command: list[str]
) -> Errand | None:
    """Return what the first process fetches before it becomes the command, if there is anything."""
    if not fetches:
        return None
    return Errand(
        fetches=fetches,
        store=str(store.root),
        work_dir=str(work_dir),
        cwd=str(cwd),
        command=command,
    )


def _filled(part: str, *, spec: LaunchSpec, env: dict[str, str], port: int | None) -> str:
    """Put name, address and shares of the slice in the place of ``{name}``, ``{host}``, ``{port}``,
    ``{slice:0.93}``; and the folder of the product's example programs in that of ``{examples}``.
    """
    part = part.replace("{port}", str(port or "")).replace("{name}", spec.workload_name)
    part = part.replace("{host}", env.get("HOST", "")).replace("{examples}", str(_EXAMPLES))
    return _SHARE.sub(lambda found: _share_seen(Decimal(found[1]), spec, env), part)


def _share_seen(of_slice: Decimal, spec: LaunchSpec, env: dict[str, str]) -> str:
    """Return a share of the slice as one of the memory that the process sees on its device.

    A virtual device, and a real one whose memory MPS bounds, look as large as the slice. Else the whole
    card is seen.
    """
    sees_slice = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" in env or not spec.devices
    if sees_slice or any(device.virtual for device in spec.devices):
        return str(of_slice)
    of_card = min(device.request_mgpu for device in spec.devices)
    share = of_slice * of_card / 1000
    return str(share.quantize(Decimal("0.001"), rounding=ROUND_DOWN))


def _find_cwd(work_dir: Path, spec: LaunchSpec, *, is_complete: bool) -> Path:
    """Return the current directory of the work, made where it is missing and nothing is mounted."""
    cwd = work_dir / spec.working_dir
    if ".." in Path(spec.working_dir).parts or Path(spec.working_dir).is_absolute():
        raise LaunchRefused(f"{spec.working_dir!r} leads out of the workload's folder")
    if is_complete:
        try:
            cwd.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchRefused(f"{spec.working_dir}: {error.strerror}") from error
    return cwd


def _refuse_missing_command(
    spec: LaunchSpec, *, env: dict[str, str], cwd: Path, is_complete: bool
) -> None:
    """Refuse a command that this machine has not; one of what is yet to be fetched may come."""
    if not spec.command:
        raise LaunchRefused("there is no command to run")
    if any("\0" in word for word in spec.command):
        raise LaunchRefused("a command can't hold a NUL character")
    name = spec.command[0]
    if "/" in name and not is_complete:
        return
    path = str(cwd / name) if "/" in name else name
    if shutil.which(path, path=env["PATH"]) is None:
        raise LaunchRefused(f"{name}: no such command on this machine")
