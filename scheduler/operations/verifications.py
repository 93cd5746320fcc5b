"""Runs of the verifications: asked for, begun, written down line by line, ended, cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from scheduler import events
from scheduler.models import VerificationLine, VerificationResult, VerificationRun
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, StateRefused

#: So many runs keep their lines; of older ones the results and checks stay.
RUNS_WITH_OUTPUT = 10
RUNS_KEPT = 100
_OPEN = (VerificationRun.Status.QUEUED, VerificationRun.Status.RUNNING)
#: A process that was begun for a run has this long to take it.
SPAWN_AGAIN_AFTER = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line to be kept; ``body`` is JSON."""

    at: datetime
    kind: VerificationLine.Kind
    body: dict[str, Any]


@transaction.atomic
def request_run(
    *,
    numbers: Sequence[tuple[str, str]],
    layout: str,
    url: str,
    authority: Authority,
    now: datetime,
) -> VerificationRun:
    """Ask for a run of ``numbers`` (number and title, in this order); it waits until it is begun.

    Raises:
        NotPermitted: only system admins may.
        StateRefused: another run is under way, or no verification is chosen.
    """
    require_may_run(authority=authority)
    if not numbers:
        raise StateRefused(
            [Problem(field="numbers", code="none_chosen", message="Choose at least one.")]
        )
    try:
        with transaction.atomic():
            run = VerificationRun.objects.create(
                numbers=[number for number, _title in numbers],
                layout=layout,
                url=url[:200],
                requested_by=authority.name,
                door=authority.door,
                requested_at=now,
            )
    except IntegrityError as error:
        problem = Problem(
            field="numbers",
            code="verification_running",
            message="Another run is under way. Wait for its end, or cancel it.",
        )
        raise StateRefused([problem]) from error
    VerificationResult.objects.bulk_create(
        VerificationResult(run=run, position=position, number=number, title=title)
        for position, (number, title) in enumerate(numbers)
    )
    audit.record(
        authority=authority,
        now=now,
        action="verification.start",
        target=run,
        after={"numbers": run.numbers, "layout": layout},
    )
    transaction.on_commit(events.wake_verifications)
    return run


@transaction.atomic
def cancel_run(*, run_id: int, authority: Authority, now: datetime) -> VerificationRun:
    """Ask a run to end; its scratch pool is removed as after any run.

    Raises:
        NotFound, NotPermitted: as for ``request_run``.
        StateRefused: it has ended.
    """
    if not authority.may(Action.NODES):
        raise NotFound("run")
    run = VerificationRun.objects.select_for_update().filter(pk=run_id).first()
    if run is None:
        raise NotFound("run")
    if run.status not in _OPEN:
        problem = Problem(field="state", code="run_has_ended", message="The run has ended already.")
        raise StateRefused([problem])
    run.cancelled_by = authority.name
    run.save(update_fields=["cancelled_by"])
    if run.status == VerificationRun.Status.QUEUED:
        _end(run, status=VerificationRun.Status.CANCELLED, trouble="", now=now)
    audit.record(
        authority=authority,
        now=now,
        action="verification.cancel",
        target=run,
        after={"numbers": run.numbers},
    )
    return run


def require_may_run(*, authority: Authority) -> None:
    """Refuse who may not run verifications.

    Raises:
        NotPermitted: only system admins may.
    """
    if not authority.may(Action.NODES):
        raise NotPermitted("Only system admins may run verifications.", code="verify_is_for_admins")


def find_open() -> VerificationRun | None:
    """Return the run that waits or is under way."""
    return VerificationRun.objects.filter(slot=1).first()


def claim_spawn(*, run_id: int, now: datetime) -> bool:
    """Say that a process is begun for a waiting run; of several that say so at once one may."""
    waiting = VerificationRun.objects.filter(pk=run_id, status=VerificationRun.Status.QUEUED)
    never = waiting.filter(spawned_at=None)
    return bool(never.update(spawned_at=now)) or bool(
        waiting.filter(spawned_at__lt=now - SPAWN_AGAIN_AFTER).update(spawned_at=now)
    )


def begin_run(*, run_id: int, now: datetime) -> bool:
    """Take a waiting run. False: it was cancelled, or another process has it."""
    waiting = VerificationRun.objects.filter(pk=run_id, status=VerificationRun.Status.QUEUED)
    return bool(waiting.update(status=VerificationRun.Status.RUNNING, started_at=now))


def is_cancelled(*, run_id: int) -> bool:
    """Test whether someone has asked the run to end."""
    return VerificationRun.objects.filter(pk=run_id).exclude(cancelled_by="").exists()


def begin_result(*, run_id: int, position: int, now: datetime) -> int:
    """Say that one verification begins; return the id under which its lines are kept."""
    result = VerificationResult.objects.get(run_id=run_id, position=position)
    result.status = VerificationResult.Status.RUNNING
    result.started_at = now
    result.save(update_fields=["status", "started_at"])
    return result.pk


def set_pool(*, result_id: int, pool_name: str) -> None:
    """Say in which scratch pool it is carried out; empty: it is gone."""
    VerificationResult.objects.filter(pk=result_id).update(pool_name=pool_name)


def add_lines(*, result_id: int, lines: Sequence[Line]) -> None:
    """Append lines in their order."""
    VerificationLine.objects.bulk_create(
        VerificationLine(result_id=result_id, at=line.at, kind=line.kind, body=line.body)
        for line in lines
    )


def end_result(*, result_id: int, passed: bool, trouble: str, now: datetime) -> None:
    """Write how one verification ended."""
    status = VerificationResult.Status.PASSED if passed else VerificationResult.Status.FAILED
    VerificationResult.objects.filter(pk=result_id).update(
        status=status, trouble=trouble, ended_at=now, pool_name=""
    )


@transaction.atomic
def end_run(*, run_id: int, status: str, trouble: str = "", now: datetime) -> bool:
    """Write how a run ended. What of it had not ended ends with it. False: it had ended before."""
    run = VerificationRun.objects.select_for_update().filter(pk=run_id, slot=1).first()
    if run is None:
        return False
    _end(run, status=VerificationRun.Status(status), trouble=trouble, now=now)
    return True


def _end(run: VerificationRun, *, status: str, trouble: str, now: datetime) -> None:
    run.status, run.trouble, run.ended_at, run.slot = status, trouble, now, None
    run.save(update_fields=["status", "trouble", "ended_at", "slot"])
    left = VerificationResult.Status.CANCELLED
    if status == VerificationRun.Status.CUT_SHORT:
        left = VerificationResult.Status.CUT_SHORT
    elif status == VerificationRun.Status.FAILED:
        left = VerificationResult.Status.FAILED
    running = run.results.filter(status=VerificationResult.Status.RUNNING)
    running.update(status=left, ended_at=now, pool_name="")
    _forget_old()


def _forget_old() -> None:
    """Drop the output of older runs, and the oldest runs whole."""
    ids = list(VerificationRun.objects.order_by("-id").values_list("id", flat=True))
    old = ids[RUNS_WITH_OUTPUT:RUNS_KEPT]
    VerificationLine.objects.filter(result__run_id__in=old, kind=VerificationLine.Kind.LOG).delete()
    VerificationRun.objects.filter(id__in=ids[RUNS_KEPT:]).delete()
