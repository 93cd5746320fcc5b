"""When a figure that is too high becomes an alert, and when the alert is over: duration and hysteresis.

A figure that is not known changes nothing: unknown is neither high nor low.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

_SECOND_US = 1_000_000


class Metric(StrEnum):
    """What is watched; the unit of value and threshold stands in the name."""

    UNMET_GUARANTEE_MGPU = "unmet_guarantee_mgpu"
    IDLE_SHARE_PERMILLE = "idle_share_permille"
    LONGEST_WAIT_S = "longest_wait_s"
    LIMIT_USED_PERMILLE = "limit_used_permille"
    COLD_START_MS = "cold_start_ms"
    LATENCY_MS = "latency_ms"
    BUDGET_SPENT_PERMILLE = "budget_spent_permille"
    UNWATCHED_WORKLOADS = "unwatched_workloads"


class Change(StrEnum):
    """What one look brought."""

    NONE = "none"
    RAISED = "raised"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Above ``threshold`` for ``for_s`` is an alert; it is over below ``clear_below`` for as long."""

    threshold: int
    for_s: int
    #: At most the threshold: between the two nothing changes.
    clear_below: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where a rule stands: whether it is raised, and since when the figure asks for the other."""

    raised: bool = False
    since_us: int | None = None
    #: The highest figure while it is raised.
    peak: int | None = None


def look(*, rule: Rule, state: State, value: int | None, now_us: int) -> tuple[State, Change]:
    """Return where the rule stands after a look at ``now_us``, and what that brought.

    ``value`` None: not known. Time runs only between looks that see the same side.
    """
    if value is None:
        return replace(state, since_us=None), Change.NONE
    peak = max(value, state.peak or 0) if state.raised else None
    asks = value < rule.clear_below if state.raised else value > rule.threshold
    if not asks:
        return State(raised=state.raised, since_us=None, peak=peak), Change.NONE
    since_us = now_us if state.since_us is None else min(state.since_us, now_us)
    if now_us - since_us < rule.for_s * _SECOND_US:
        return State(raised=state.raised, since_us=since_us, peak=peak), Change.NONE
    if state.raised:
        return State(), Change.CLEARED
    return State(raised=True, peak=value), Change.RAISED


def clear_below(*, threshold: int) -> int:
    """Return the figure below which an alert is over: a tenth under its threshold, 1 at least.

    Source: a figure that swings around its threshold is one alert, not many.
    """
    return max(1, threshold - threshold // 10)
