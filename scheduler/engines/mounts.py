"""Data sources in a replica's working directory: links to what is here, errands for what is not."""

from __future__ import annotations

import os
import re
from pathlib import Path

from scheduler.core.vocabulary import SourceType
from scheduler.engines.base import LaunchRefused, Mount
from scheduler.engines.records import Fetch
from scheduler.engines.store import Store

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
MOUNT_TABLE = "/proc/self/mounts"


def place(
    *, mounts: tuple[Mount, ...], work_dir: Path, store: Store, mount_table: str = MOUNT_TABLE
) -> list[Fetch]:
    """Link what is on this machine into the working directory; return what must be fetched first.

    Raises:
        LaunchRefused: it is not here, or lies where nobody may look.
    """
    fetches: list[Fetch] = []
    for mount in mounts:
        if not _NAME.fullmatch(mount.name):
            raise LaunchRefused(f"{mount.name!r} can't name a folder of data")
        match mount.source:
            case SourceType.GIT | SourceType.S3:
                fetches.append(
                    Fetch(
                        name=mount.name,
                        source=mount.source.value,
                        about=dict(mount.about),
                        secrets=dict(mount.secrets),
                    )
                )
            case SourceType.TREE:
                link(work_dir / mount.name, _find_tree(mount, store))
            case SourceType.HOST_PATH:
                link(work_dir / mount.name, _find_host_path(mount))
            case SourceType.NFS:
                link(work_dir / mount.name, _find_nfs(mount, mount_table))
    return fetches


def variables(*, mounts: tuple[Mount, ...], work_dir: str) -> dict[str, str]:
    """Return the environment by which work finds its data: TIDEGATE_DATA_WEIGHTS=/.../weights."""
    return {
        "TIDEGATE_DATA_" + mount.name.upper().replace("-", "_"): os.path.join(work_dir, mount.name)
        for mount in mounts
    }


def link(path: Path, target: Path) -> None:
    """Have ``path`` lead to ``target``; what a workload made there itself is not touched.

    Raises:
        LaunchRefused: it made something of its own there.
    """
    if path.is_symlink():
        if os.readlink(path) == str(target):
            return
        path.unlink()
    elif path.exists():
        raise LaunchRefused(
            f"{path.name} in the working directory is the workload's own: the data source of that "
            "name can't be mounted there"
        )
    path.symlink_to(target)


def _find_tree(mount: Mount, store: Store) -> Path:
    path = store.find(mount.get("digest"))
    if path is None:
        raise LaunchRefused(f"the files of the data source {mount.name} are not on this machine")
    return path


def _find_host_path(mount: Mount) -> Path:
    """Return where a host path really leads, if that is allowed: links may have been changed since."""
    real = Path(os.path.realpath(mount.get("path")))
    if not any(real.is_relative_to(folder) for folder in mount.within):
        raise LaunchRefused(
            f"the data source {mount.name} leads out of the folders that may be mounted"
        )
    if not real.exists():
        raise LaunchRefused(f"{mount.get('path')} of the data source {mount.name} is not there")
    return real


def _find_nfs(mount: Mount, mount_table: str) -> Path:
    """Return where this machine has an NFS export, or a folder above the one that is wanted."""
    server, wanted = mount.get("server"), Path(mount.get("path"))
    for device, point in _nfs_mounts(mount_table):
        host, _, export = device.rpartition(":")
        if host.strip("[]") == server.strip("[]") and wanted.is_relative_to(export):
            found = point / wanted.relative_to(export)
            if not Path(os.path.realpath(found)).is_relative_to(os.path.realpath(point)):
                raise LaunchRefused(f"the data source {mount.name} leads out of its export")
            return found
    raise LaunchRefused(
        f"{server}:{wanted} of the data source {mount.name} is not mounted on this machine"
    )


def _nfs_mounts(mount_table: str) -> list[tuple[str, Path]]:
    """Return (server:export, where it is mounted), the longest export first."""
    with open(mount_table, encoding="utf-8") as file:
        fields = [line.split() for line in file]
    found = [(f[0], Path(f[1].replace("\\040", " "))) for f in fields if f[2] in ("nfs", "nfs4")]
    return sorted(found, key=lambda pair: -len(pair[0]))
