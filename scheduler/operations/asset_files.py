"""Files that are uploaded as a data source: as they are, or unpacked from one archive; kept once."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, cast

from django.conf import settings

from scheduler import models
from scheduler.engines.store import KeptTree, Store, TreeRefused
from scheduler.operations.refused import Problem, SubmitRefused

MAX_FILES = 20_000
FORGOTTEN_AFTER = timedelta(days=1)
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


def sweep(*, now: datetime) -> None:
    """Remove uploaded trees that nothing has spoken of for a day."""
    store = Store(Path(settings.WORKLOADS_DIR) / "store")
    before_s = (now - FORGOTTEN_AFTER).timestamp()
    drop_trees(names=store.list_older(prefix="sha256-", before_s=before_s))


def drop_trees(*, names: Iterable[str]) -> None:
    """Remove trees that no asset and no work speaks of."""
    store = Store(Path(settings.WORKLOADS_DIR) / "store")
    for name in names:
        living = models.Asset.objects.filter(definition__digest=name, deleted_at=None)
        used = models.WorkloadAsset.objects.filter(
            definition__digest=name, workload__deleted_at__isnull=True
        )
        spoken_of = living.exists() or used.exists()
        if not spoken_of:
            store.remove(name)


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
