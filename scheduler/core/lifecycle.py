"""What becomes of a workload when replicas end: one pure rule, used by the tick's observe step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase

#: The pause after the first failure and the longest pause, in seconds; it doubles in between.
FIRST_PAUSE_S = 5
LONGEST_PAUSE_S = 300


class Ending(StrEnum):
    """How one replica ended."""

    FINISHED = "finished"  # with 0, by itself
    FAILED = "failed"  # non-zero, a signal, not ready in time, over its memory
    INTERRUPTED = "interrupted"  # the scheduler asked it to go
    STOPPED = "stopped"  # a person or a rule asked it to go
    SCALED_DOWN = "scaled_down"
    LOST = "lost"  # its node or its process is gone without a word
    GANG = "gang"  # it was ended because another member of its gang ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One replica that has just ended."""

    ending: Ending
    exit_code: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A workload as it stood before its replicas ended."""

    kind: Kind
    min_replicas: int
    stop_requested: bool
    failures: int
    #: 0: never gives up.
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of the workload."""

    phase: Phase
    failures: int
    #: Seconds before the next start is tried; 0: none.
    pause_s: int = 0
    #: The rest of the gang must end too: it is whole or absent.
    end_the_rest: bool = False
    interrupted: bool = False


def classify(*, exit_code: int | None, signal: int | None, stop_code: str, lost: bool) -> Ending:
    """Return how a replica ended, from its exit and from why it had been asked to end, if it had.

    A workload that finishes by itself with 0 during the grace period is finished; its own other exit
    code after SIGTERM counts as neither failure nor success.
    """
    if lost:
        return Ending.LOST
    if exit_code == 0 and signal is None and stop_code in _ASKED_BY_SCHEDULER:
        return Ending.FINISHED
    if stop_code in _ASKED_BY_SCHEDULER:
        return Ending.INTERRUPTED
    if stop_code == "scale_down":
        return Ending.SCALED_DOWN
    if stop_code == "gang":
        return Ending.GANG
    if stop_code in _FAILURES:
        return Ending.FAILED
    if stop_code:
        return Ending.STOPPED
    return Ending.FINISHED if exit_code == 0 and signal is None else Ending.FAILED


_ASKED_BY_SCHEDULER = frozenset({"reclaim", "preempt", "consolidate", "lost", "drain"})
_FAILURES = frozenset({"over_memory", "not_ready", "launch_refused"})


def settle(*, standing: Standing, ended: Sequence[Ended], alive: Sequence[ReplicaPhase]) -> Outcome:
    """Return what becomes of a workload of which ``ended`` ended now and ``alive`` still hold."""
    failed = any(e.ending is Ending.FAILED for e in ended)
    finished = any(e.ending is Ending.FINISHED for e in ended)
    failures = standing.failures + (1 if failed or (finished and _must_not_end(standing)) else 0)
    if alive:
        return _settle_with_the_rest(standing=standing, ended=ended, alive=alive, failures=failures)
    if standing.stop_requested:
        return Outcome(phase=Phase.STOPPED, failures=standing.failures)
    if finished and not failed and not _must_not_end(standing):
        return Outcome(phase=Phase.COMPLETED, failures=standing.failures)
    if failures > standing.failures or _has_given_up(standing):
        return _after_failure(standing=standing, failures=failures)
    interrupted = any(e.ending in (Ending.INTERRUPTED, Ending.LOST) for e in ended)
    return Outcome(phase=Phase.PENDING, failures=failures, interrupted=interrupted)


def _must_not_end(standing: Standing) -> bool:
    return standing.kind is Kind.INFERENCE


def _has_given_up(standing: Standing) -> bool:
    """A gang's last failure was counted when its first member ended; the rest has followed."""
    return bool(standing.max_attempts) and standing.failures >= standing.max_attempts


def _after_failure(*, standing: Standing, failures: int) -> Outcome:
    if standing.max_attempts and failures >= standing.max_attempts:
        return Outcome(phase=Phase.FAILED, failures=failures)
    pause_s = min(FIRST_PAUSE_S * 2 ** min(failures - 1, 16), LONGEST_PAUSE_S)
    return Outcome(phase=Phase.PENDING, failures=failures, pause_s=pause_s)


def _settle_with_the_rest(
    *, standing: Standing, ended: Sequence[Ended], alive: Sequence[ReplicaPhase], failures: int
) -> Outcome:
    leaving = all(phase is ReplicaPhase.STOPPING for phase in alive)
    if leaving:
        return Outcome(phase=Phase.STOPPING, failures=failures)
    if standing.kind is Kind.INFERENCE:
        running = sum(phase is ReplicaPhase.RUNNING for phase in alive)
        phase = Phase.RUNNING if running >= standing.min_replicas else Phase.DEGRADED
        pause_s = 0
        if failures > standing.failures:
            pause_s = _after_failure(standing=standing, failures=failures).pause_s
        return Outcome(phase=phase, failures=failures, pause_s=pause_s)
    stays = sum(phase is not ReplicaPhase.STOPPING for phase in alive)
    broken = stays < standing.min_replicas and any(e.ending is not Ending.FINISHED for e in ended)
    pause_s = 0
    if failures > standing.failures:
        pause_s = _after_failure(standing=standing, failures=failures).pause_s
    return Outcome(phase=Phase.RUNNING, failures=failures, pause_s=pause_s, end_the_rest=broken)
