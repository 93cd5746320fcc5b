"""A data source made for a run, and what the GPUs' pages say of the processes on them."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scheduler.core.vocabulary import AssetKind
from scheduler.management.verify.readers import Process
from scheduler.management.verify.scene import Scene
from scheduler.management.verify.stage import Stage
from scheduler.operations import asset_files, assets
from scheduler.operations.authority import SYSTEM

_FILE = "about.txt"
_ROW = re.compile(r'data-process="(\d+)".*?data-granted="(\d+)".*?data-used="(\d*)"', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """A data source: one file with a text of the run in it. ``tree`` is the name of its folder."""

    asset_id: int
    name: str
    tree: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a GPU's page says of one process."""

    granted_mib: int
    used_mib: int


def define(scene: Scene) -> Defined:
    """Upload one file and define it for the whole cluster. It goes with the scratch pool."""
    text = f"tide {scene.run}"
    kept = asset_files.keep_files(files=[(_FILE, io.BytesIO(text.encode()))])
    asset = assets.create_asset(
        kind=AssetKind.SOURCE,
        draft=assets.AssetDraft(
            name=scene.pool_name,
            definition={
                "type": "tree",
                "digest": kept.name,
                "files": kept.files,
                "bytes": kept.size_bytes,
            },
        ),
        authority=SYSTEM,
        now=datetime.now(tz=UTC),
        scratch=True,
    )
    return Defined(asset_id=asset.pk, name=asset.name, tree=kept.name, text=text)


def read(process: Process | None, source: Defined) -> tuple[str, str]:
    """Return what a process finds under the source's name, and the folder that it leads to."""
    if process is None:
        return "no process", ""
    folder = Path(f"/proc/{process.pid}/cwd") / source.name
    try:
        text = (folder / _FILE).read_text(encoding="utf-8")
    except OSError as error:
        return error.strerror or "unreadable", ""
    return text, os.path.basename(os.path.realpath(folder))


def read_processes_of_devices(stage: Stage) -> dict[int, Shown]:
    """Return what the pages of the run's GPUs list, by process number."""
    found: dict[int, Shown] = {}
    node_name = stage.scene.node_name
    for index in range(stage.layout.devices):
        page = stage.browser.read("device", node_name, index).text
        for pid, granted, used in _ROW.findall(page):
            found[int(pid)] = Shown(granted_mib=int(granted), used_mib=int(used or 0))
    return found
