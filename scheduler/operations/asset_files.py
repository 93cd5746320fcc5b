"""Files that are uploaded as a data source: as they are, or unpacked from one archive; kept once."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from django.conf import settings

from scheduler.engines.store import KeptTree, Store, TreeRefused
from scheduler.operations.refused import Problem, SubmitRefused

MAX_FILES = 20_000
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")


def keep_files(*, files: Sequence[tuple[str, BinaryIO]]) -> KeptTree:
    """Keep files in the store; one archive alone is unpacked. Links in archives are left out.

    Raises:
        SubmitRefused: too much, nothing, or a path that leads out.
    """
    store = Store(Path(settings.WORKLOADS_DIR) / "store")
    try:
        return store.add_files(
            _opened(files), limit_bytes=settings.UPLOAD_MIB * 2**20, limit_files=MAX_FILES
        )
    except (TreeRefused, zipfile.BadZipFile, tarfile.TarError, OSError, EOFError) as error:
        raise SubmitRefused(
            [
                Problem(
                    field="upload",
                    code="bad_files",
                    message=f"These files can't be kept: {error}. At most {settings.UPLOAD_MIB} "
                    f"MiB and {MAX_FILES} files, or one archive of them.",
                    params={"why": str(error), "mib": settings.UPLOAD_MIB, "files": MAX_FILES},
                )
            ]
        ) from error


def _opened(files: Sequence[tuple[str, BinaryIO]]) -> Iterable[tuple[str, BinaryIO]]:
    if len(files) == 1 and files[0][0].lower().endswith(ARCHIVES):
        name, stream = files[0]
        return _unzipped(stream) if name.lower().endswith(".zip") else _untarred(stream)
    return files


def _unzipped(stream: BinaryIO) -> Iterator[tuple[str, BinaryIO]]:
    with zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
            if not member.is_dir() and not is_link:
                with archive.open(member) as file:
                    yield member.filename, cast(BinaryIO, file)


def _untarred(stream: BinaryIO) -> Iterator[tuple[str, BinaryIO]]:
    with tarfile.open(fileobj=stream) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            if file is not None:
                with file:
                    yield member.name, cast(BinaryIO, file)
