"""The verifications by number. A further one is a module with NUMBER, TITLE, units and carry_out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol, cast

from scheduler.host import lock
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
    v8_report,
    v_guard,
    v_idle,
    v_tide,
)
from scheduler.management.verify.checks import Check, Result, Sheet
from scheduler.management.verify.layout import Layout
from scheduler.management.verify.pages import PageFailed
from scheduler.management.verify.stage import START_S, Stage, open_stage
from scheduler.models import VerificationRun
from scheduler.operations import verifications as operations
from scheduler.operations.demonstration_data import Unit
from scheduler.operations.refused import Refused
from scheduler.tick.verifications import lock_file


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
    v8_report,
    v_guard,
    v_idle,
    v_tide,
)
VERIFICATIONS: dict[str, Verification] = {
    module.NUMBER: cast("Verification", module) for module in _MODULES
}


#: Others take the lock for an instant, only to see whether it is held.
LOOKED_AT_S = 1.0
CLEARED_WITHIN_S = 120.0


class AlreadyVerifying(Exception):
    """Another verify runs with this data folder."""


def run_one(
    *,
    number: str,
    url: str,
    layout: Layout,
    on_check: Callable[[Check], None],
    watcher: scene.Watcher = scene.NOBODY,
    edit: scene.Edit = scene.unchanged,
    patience_s: float = START_S,
) -> Result:
    """Carry out one verification in a scratch pool of its own and return what became of it.

    ``edit`` changes queues as they are made: tests switch the rule off that is verified.
    ``patience_s``: how long what is expected is waited for.
    """
    verification = VERIFICATIONS[number]
    sheet = Sheet(on_check=on_check, on_given=watcher.given, on_when=watcher.when)
    began = time.monotonic()
    trouble = ""
    try:
        with open_stage(
            url=url,
            layout=layout,
            units=verification.units(layout),
            sheet=sheet,
            watcher=watcher,
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

    A process that only clears is waited for; one that carries a run out is not.

    Raises:
        AlreadyVerifying: another one is at work.
    """
    within_s = LOOKED_AT_S if operations.find_open() else CLEARED_WITHIN_S
    try:
        with lock.hold(lock_file(), within_s=within_s):
            yield _clear()
    except lock.Held:
        raise AlreadyVerifying("Another verify runs here. Wait for its end.") from None


def _clear() -> int:
    """End the run and remove the pools of a process that is gone. The caller holds the lock."""
    run = operations.find_open()
    if run is not None and run.status == VerificationRun.Status.RUNNING:
        operations.end_run(
            run_id=run.pk, status=VerificationRun.Status.CUT_SHORT, now=datetime.now(tz=UTC)
        )
    leftovers = scene.list_leftovers()
    for name in leftovers:
        scene.remove_pool(name)
    pages.remove_users()
    return len(leftovers)
