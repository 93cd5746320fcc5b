"""Carries out a run of verifications and writes it down. The command line and the page share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from scheduler.management.verify.checks import Check, Result
from scheduler.management.verify.layout import LAYOUTS
from scheduler.management.verify.recorder import Recorder
from scheduler.management.verify.registry import VERIFICATIONS, run_one
from scheduler.management.verify.stage import START_S
from scheduler.models import VerificationRun
from scheduler.operations import verifications as operations
from scheduler.operations.authority import Authority
from scheduler.operations.refused import Problem, StateRefused


class NotToBeRun(Exception):
    """The run was cancelled before it began, or another process has it."""


def ask_for(
    *, numbers: Sequence[str], layout: str, url: str, authority: Authority
) -> VerificationRun:
    """Ask for a run of these verifications, each once, in the order in which they are listed.

    Raises:
        NotPermitted: as ``operations.request_run``.
        StateRefused: as there, or there is no such verification or layout.
    """
    operations.require_may_run(authority=authority)
    if layout not in LAYOUTS:
        said = "There is no {name} to run on. Choose one of these: {known}."
        raise StateRefused([_unknown("layout", "no_such_layout", said, layout, LAYOUTS)])
    for number in numbers:
        if number not in VERIFICATIONS:
            said = "There is no verification {name}. Choose of these: {known}."
            raise StateRefused(
                [_unknown("numbers", "no_such_verification", said, number, VERIFICATIONS)]
            )
    chosen = [number for number in VERIFICATIONS if number in numbers]
    titles = [(number, VERIFICATIONS[number].TITLE) for number in chosen]
    return operations.request_run(
        numbers=titles, layout=LAYOUTS[layout].name, url=url, authority=authority, now=_now()
    )


def _unknown(field: str, code: str, said: str, name: str, known: Iterable[str]) -> Problem:
    params = {"name": name[:20], "known": ", ".join(known)}
    return Problem(field=field, code=code, message=said.format(**params), params={**params})


class Hearer:
    """Hears of a run as it goes on; the command line prints."""

    def title(self, number: str) -> None:
        """Hear that a verification begins."""

    def check(self, check: Check) -> None:
        """Hear of a check."""

    def result(self, result: Result) -> None:
        """Hear how it ended."""


def carry_out(
    *, run: VerificationRun, url: str, hearer: Hearer, patience_s: float = START_S
) -> list[Result]:
    """Carry a run out and return what became of each verification. The caller holds the lock.

    A run that is interrupted, cancelled or fails for an unforeseen reason is ended in the tables
    before that reason goes on to the caller.

    Raises:
        NotToBeRun: it is not waiting any more.
    """
    if not operations.begin_run(run_id=run.pk, now=_now()):
        raise NotToBeRun(f"Run {run.pk} is not waiting any more.")
    status = VerificationRun.Status
    try:
        with Recorder(run_id=run.pk) as recorder:
            results = [
                _one(run, position, number, url, recorder, hearer, patience_s)
                for position, number in enumerate(run.numbers)
            ]
    except KeyboardInterrupt:
        operations.end_run(run_id=run.pk, status=status.CANCELLED, now=_now())
        raise
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
        operations.end_run(run_id=run.pk, status=status.FAILED, trouble=said, now=_now())
        raise
    passed = all(result.passed for result in results)
    operations.end_run(run_id=run.pk, status=status.PASSED if passed else status.FAILED, now=_now())
    return results


def _one(
    run: VerificationRun,
    position: int,
    number: str,
    url: str,
    recorder: Recorder,
    hearer: Hearer,
    patience_s: float,
) -> Result:
    hearer.title(number)
    recorder.begin(position)
    result = run_one(
        number=number,
        url=url,
        layout=LAYOUTS[run.layout],
        on_check=_both(recorder.check, hearer.check),
        watcher=recorder,
        patience_s=patience_s,
    )
    recorder.end(result)
    hearer.result(result)
    return result


def _both(
    first: Callable[[Check], None], second: Callable[[Check], None]
) -> Callable[[Check], None]:
    def tell(check: Check) -> None:
        first(check)
        second(check)

    return tell


def _now() -> datetime:
    return datetime.now(tz=UTC)
