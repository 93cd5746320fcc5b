"""The verifications by number. A further one is a module with NUMBER, TITLE, units and carry_out."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

from django.conf import settings

from scheduler.management.verify import (
    pages,
    scene,
    v1_researcher,
    v2_side_by_side,
    v3_caps,
    v4_isolation,
    v5_reclaim,
    v6_preemption,
    v7_replicas,
    v_guard,
    v_idle,
    v_tide,
)
from scheduler.management.verify.checks import Check, Result, Sheet
from scheduler.management.verify.layout import Layout
from scheduler.management.verify.pages import PageFailed
from scheduler.management.verify.stage import START_S, Stage, open_stage
from scheduler.operations.demonstration_data import Unit
from scheduler.operations.refused import Refused


class Verification(Protocol):
    """What a module of a verification holds."""

    NUMBER: str
    TITLE: str

    def units(self, layout: Layout) -> Sequence[Unit]:
        """Return the departments and projects that it needs, departments first."""

    def carry_out(self, stage: Stage) -> None:
        """Do it and note every check."""


_MODULES = (
    v1_researcher,
    v2_side_by_side,
    v3_caps,
    v4_isolation,
    v5_reclaim,
    v6_preemption,
    v7_replicas,
    v_guard,
    v_idle,
    v_tide,
)
VERIFICATIONS: dict[str, Verification] = {
    module.NUMBER: cast("Verification", module) for module in _MODULES
}


class AlreadyVerifying(Exception):
    """Another verify runs with this data folder."""


def run_one(
    *,
    number: str,
    url: str,
    layout: Layout,
    on_check: Callable[[Check], None],
    edit: scene.Edit = scene.unchanged,
    patience_s: float = START_S,
) -> Result:
    """Carry out one verification in a scratch pool of its own and return what became of it.

    ``edit`` changes queues as they are made: tests switch the rule off that is verified.
    ``patience_s``: how long what is expected is waited for.
    """
    verification = VERIFICATIONS[number]
    sheet = Sheet(on_check=on_check)
    began = time.monotonic()
    trouble = ""
    try:
        with open_stage(
            url=url,
            layout=layout,
            units=verification.units(layout),
            sheet=sheet,
            edit=edit,
            patience_s=patience_s,
        ) as stage:
            verification.carry_out(stage)
    except (PageFailed, Refused, scene.SceneNotRemoved) as error:
        trouble = str(error)
    return Result(
        number=number,
        title=verification.TITLE,
        checks=tuple(sheet.checks),
        took_s=time.monotonic() - began,
        trouble=trouble,
    )


@contextmanager
def alone() -> Iterator[int]:
    """Keep other runs away, clear what a killed one left, and give the number of pools cleared.

    Raises:
        AlreadyVerifying: another one is at work.
    """
    folder = Path(settings.DATA_DIR) / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / "verify.lock", "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyVerifying("Another verify runs here. Wait for its end.") from None
        leftovers = scene.list_leftovers()
        for name in leftovers:
            scene.remove_pool(name)
        pages.remove_users()
        yield len(leftovers)
