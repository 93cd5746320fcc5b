"""Which paths of a machine a data source may be: below an allowed folder, and never Tidegate's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from scheduler.core.vocabulary import SourceType
from scheduler.operations.refused import Problem


def allowed_folders() -> tuple[str, ...]:
    """Return the folders below which host paths may lie, as they really are."""
    return tuple(os.path.realpath(path) for path in settings.HOST_PATHS)


def find_path_problems(definition: Mapping[str, object]) -> list[Problem]:
    """Return what is wrong with where a host path leads; links are followed."""
    path = str(definition.get("path", ""))
    if definition.get("type") != SourceType.HOST_PATH or not path.startswith("/"):
        return []
    folders = allowed_folders()
    if not folders:
        return [
            Problem(
                field="path",
                code="no_host_paths",
                message="No folder of this machine is allowed: set TIDEGATE_HOST_PATHS to those "
                "that may be offered, and start Tidegate again.",
            )
        ]
    real = Path(os.path.realpath(path))
    own = [Path(os.path.realpath(folder)) for folder in (settings.DATA_DIR, settings.WORKLOADS_DIR)]
    if any(real.is_relative_to(folder) or folder.is_relative_to(real) for folder in own):
        return [
            Problem(
                field="path",
                code="own_files",
                message="Tidegate's own files lie there. Choose another folder.",
            )
        ]
    if not any(real.is_relative_to(folder) for folder in folders):
        return [
            Problem(
                field="path",
                code="path_not_allowed",
                message=f"Choose a path below one of: {', '.join(folders)}.",
                params={"folders": ", ".join(folders)},
            )
        ]
    return []
