"""One file for a whole installation: what goes in, and where it goes back to."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from dashboard.backups import databases

FORMAT = 1
MANIFEST = "manifest.json"
ENVIRONMENT = "settings.env"
KEYS = ("secret.key", "credentials.key")
#: Below the folder of workloads: uploaded data, and what work has written (with several machines in
#: ``storage``, which they share). Not what runs.
UPLOADED = ("store",)
WORK = ("engine/storage", "engine/logs", "storage")
#: Never kept: they are of the machine, or shown once.
NOT_KEPT = frozenset({"TIDEGATE_ADMIN_PASSWORD", "TIDEGATE_DATA", "TIDEGATE_WORKLOADS"})


class NoBackup(Exception):
    """The file is no backup, or one that can't be restored here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup is of."""

    format: int
    made_at: str
    database: str
    migrations: Mapping[str, str]
    rows: Mapping[str, int]
    with_work: bool


def write(file: Path, *, with_work: bool) -> Manifest:
    """Write a backup of everything, readable by its owner only; a draft until it is whole."""
    draft = file.with_name(file.name + ".draft")
    with tempfile.TemporaryDirectory(prefix="tidegate-backup-", dir=file.parent) as name:
        folder = Path(name)
        rows = databases.dump(folder)
        manifest = Manifest(
            format=FORMAT,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            database=databases.kind(),
            migrations=databases.migrations(),
            rows=rows,
            with_work=with_work,
        )
        with (
            os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out,
            tarfile.open(fileobj=out, mode="w:gz") as tar,
        ):
            _add_text(tar, MANIFEST, json.dumps(asdict(manifest), indent=1))
            _add_text(tar, ENVIRONMENT, _environment())
            for place in sorted(folder.rglob("*")):
                _add_file(tar, place, f"database/{place.relative_to(folder)}")
            for key in KEYS:
                _add_file(tar, Path(settings.DATA_DIR) / key, f"data/{key}")
            for part in (*UPLOADED, *(WORK if with_work else ())):
                _add_tree(tar, Path(settings.WORKLOADS_DIR) / part, f"workloads/{part}")
    draft.replace(file)
    return manifest


def read(file: Path) -> Manifest:
    """Return what a backup is of.

    Raises:
        NoBackup: it is none, or of a later format.
    """
    try:
        with tarfile.open(file, mode="r:gz") as tar:
            first = tar.next()
            told = tar.extractfile(first) if first and first.name == MANIFEST else None
            given: dict[str, Any] = json.loads(told.read()) if told else {}
    except (OSError, tarfile.TarError, ValueError) as error:
        raise NoBackup(f"{file} can't be read as a backup: {error}") from error
    if not given:
        raise NoBackup(f"{file} is no backup of Tidegate.")
    if given.get("format") != FORMAT:
        raise NoBackup(f"{file} has format {given.get('format')}; this version reads {FORMAT}.")
    return Manifest(**given)


def restore(file: Path) -> list[Path]:
    """Put a backup in place of what is here; return what was moved aside.

    Raises:
        NoBackup: it is none, or of the other kind of database.
        ValueError: it is of a newer version.
        NotEmpty: a PostgreSQL database that is in use.
    """
    manifest = read(file)
    if manifest.database != databases.kind():
        raise NoBackup(
            f"{file} is of {manifest.database}, and this installation uses {databases.kind()}."
        )
    databases.refuse_newer(manifest.migrations)
    data = Path(settings.DATA_DIR)
    with tempfile.TemporaryDirectory(prefix="tidegate-restore-", dir=data) as name:
        folder = Path(name)
        with tarfile.open(file, mode="r:gz") as tar:
            tar.extractall(folder, filter="data")
        if databases.kind() == "postgresql" and databases.has_content():
            raise databases.NotEmpty
        connection.close()  # its last commits go into the file while that is still in its place
        aside = _move_aside(data)
        databases.load(folder / "database", state=manifest.migrations)
        for key in KEYS:
            if (folder / "data" / key).exists():
                (folder / "data" / key).replace(data / key)
                (data / key).chmod(0o600)
        work = folder / "workloads"
        if work.exists():
            shutil.move(work, settings.WORKLOADS_DIR)  # it may lie on another volume
        (folder / ENVIRONMENT).replace(data / "restored-settings.env")
    return aside


def _move_aside(data: Path) -> list[Path]:
    """Keep what was here, so that a restore of the wrong file can be taken back."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    moved = []
    places = (
        Path(settings.WORKLOADS_DIR),
        data / "tidegate.sqlite3",
        *(data / key for key in KEYS),
    )
    for place in places:
        if place.exists():
            to = place.with_name(f"{place.name}.before-{stamp}")
            place.rename(to)
            moved.append(to)
    return moved


def _environment() -> str:
    """Return the settings that this installation was given, for whoever sets the next one up."""
    kept = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("TIDEGATE_") and name not in NOT_KEPT and value
    )
    return "".join(f"{name}={value}\n" for name, value in kept)


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(content), 0o600, int(datetime.now(UTC).timestamp())
    tar.addfile(info, io.BytesIO(content))


def _add_tree(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    for place in _walk(folder):
        _add_file(tar, place, f"{name}/{place.relative_to(folder)}")


def _walk(folder: Path) -> Iterator[Path]:
    for parent, _folders, files in os.walk(folder):
        for each in sorted(files):
            yield Path(parent) / each


def _add_file(tar: tarfile.TarFile, place: Path, name: str) -> None:
    """Add a file as it is at this moment: work may be writing it, or may have taken it away."""
    if place.is_symlink() or not place.is_file():
        return
    try:
        source = open(place, "rb")  # noqa: SIM115
    except FileNotFoundError:
        return
    with source, tempfile.TemporaryFile() as copy:
        while piece := source.read(1 << 20):
            copy.write(piece)
        info = tar.gettarinfo(arcname=name, fileobj=source)
        info.size = copy.tell()
        copy.seek(0)
        tar.addfile(info, copy)
