"""Idle governance as a rule: how long work has been idle, when to warn, when to end it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.core.vocabulary import Kind

#: Percent of the limit at which the owner is warned, the lower first.
WARN_AT_PERCENT = (50, 90)
#: A workload may be kept once in this time.
KEEP_EVERY_S = 30 * 60
#: A reading older than this says nothing.
READING_KEPT_US = 15_000_000
_SECOND_US = 1_000_000


class RuleKind(StrEnum):
    """The kinds of work that may have an idle rule. Inference never has one: it scales to zero."""

    TRAINING = "training"
    PREEMPTIBLE_WORKSPACE = "preemptible_workspace"
    NON_PREEMPTIBLE_WORKSPACE = "non_preemptible_workspace"


class Verdict(StrEnum):
    """What a rule asks for now."""

    NOTHING = "nothing"
    WARN = "warn"
    STOP_IDLE = "stop_idle"
    STOP_RUNTIME = "stop_runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may be at most; None: no bound."""

    idle_limit_s: int | None = None
    runtime_limit_s: int | None = None
    owner_may_keep: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is known of one replica's activity. ``idle`` None: nothing was ever read."""

    idle: bool | None
    idle_since_us: int | None
    read_at_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One running workload under a rule."""

    limits: Limits
    readings: Sequence[Reading]
    #: Since when it runs this time.
    running_since_us: int | None
    #: How long it has run in all, interruptions left out.
    ran_s: int = 0
    kept_at_us: int | None = None
    warned_percent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgment:
    """What the rule found. ``idle_s`` None: it is not idle, or that is not known."""

    verdict: Verdict
    idle_s: int | None = None
    percent: int = 0
    #: Seconds until it would be stopped for being idle; None: it is not on its way there.
    left_s: int | None = None


def rule_kind(*, kind: Kind, preemptible: bool) -> RuleKind | None:
    """Return which rule is for work of this kind; None: there is none for it."""
    match kind:
        case Kind.TRAINING | Kind.DISTRIBUTED:
            return RuleKind.TRAINING
        case Kind.WORKSPACE if preemptible:
            return RuleKind.PREEMPTIBLE_WORKSPACE
        case Kind.WORKSPACE:
            return RuleKind.NON_PREEMPTIBLE_WORKSPACE
        case Kind.INFERENCE:
            return None


def tighten(*, outer: Limits | None, inner: Limits | None) -> Limits:
    """Return what counts where a department and one of its projects both have a rule."""
    given = [each for each in (outer, inner) if each is not None]
    return Limits(
        idle_limit_s=_least(each.idle_limit_s for each in given),
        runtime_limit_s=_least(each.runtime_limit_s for each in given),
        owner_may_keep=all(each.owner_may_keep for each in given),
    )


def _least(values: Iterable[int | None]) -> int | None:
    return min((each for each in values if each is not None), default=None)


def since_after(*, before: Reading, idle: bool, at_us: int, longest_gap_us: int) -> int | None:
    """Return since when a replica is idle after a reading at ``at_us``; None: it is not.

    Any activity begins the clock anew, and so does a time in which nothing could be read.
    """
    if not idle:
        return None
    unknown = before.read_at_us is None or at_us - before.read_at_us > longest_gap_us
    if unknown or not before.idle or before.idle_since_us is None:
        return at_us
    return before.idle_since_us


def idle_seconds(*, watched: Watched, now_us: int) -> int | None:
    """Return for how long every replica has shown no activity; None where one has, or is unknown.

    The clock begins at the latest of: the last activity of any replica, the start, and a *Keep*. It
    goes as far as the readings do: time that nobody has looked at counts for nothing.
    """
    if not watched.readings or watched.running_since_us is None:
        return None
    since = [watched.running_since_us]
    until_us = now_us
    if watched.kept_at_us is not None:
        since.append(watched.kept_at_us)
    for reading in watched.readings:
        if not reading.idle or reading.idle_since_us is None or reading.read_at_us is None:
            return None
        if now_us - reading.read_at_us > READING_KEPT_US:
            return None
        since.append(reading.idle_since_us)
        until_us = min(until_us, reading.read_at_us)
    return max(0, (until_us - max(since)) // _SECOND_US)


def judge(*, watched: Watched, now_us: int) -> Judgment:
    """Return what the rule asks for now."""
    limit_s = watched.limits.runtime_limit_s
    if limit_s is not None and watched.ran_s >= limit_s:
        return Judgment(verdict=Verdict.STOP_RUNTIME)
    idle_s = idle_seconds(watched=watched, now_us=now_us)
    idle_limit_s = watched.limits.idle_limit_s
    if idle_s is None or idle_limit_s is None:
        return Judgment(verdict=Verdict.NOTHING, idle_s=idle_s)
    if idle_s >= idle_limit_s:
        return Judgment(verdict=Verdict.STOP_IDLE, idle_s=idle_s, percent=100, left_s=0)
    reached = max(
        (each for each in WARN_AT_PERCENT if 100 * idle_s >= each * idle_limit_s), default=0
    )
    verdict = Verdict.WARN if reached > watched.warned_percent else Verdict.NOTHING
    return Judgment(verdict=verdict, idle_s=idle_s, percent=reached, left_s=idle_limit_s - idle_s)


def may_keep_again(*, kept_at_us: int | None, now_us: int) -> bool:
    """Test whether the last *Keep* is long enough ago."""
    return kept_at_us is None or now_us - kept_at_us >= KEEP_EVERY_S * _SECOND_US
