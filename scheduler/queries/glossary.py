"""Reasons, events and verbs as the reference lists them: each code with an example of its sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from scheduler import models
from scheduler.core.vocabulary import Level, Reason
from scheduler.queries import decision_words, timeline
from scheduler.queries.phrases import plain
from scheduler.queries.reasons import Numbers, why_waiting
from scheduler.queries.visibility import WHOLE_CLUSTER

_NEXT_TRY = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
#: Numbers as the core records them, so that each sentence is complete.
_REASON_NUMBERS: dict[Reason, Numbers] = {
    Reason.OVER_LIMIT: {
        "level": Level.DEPARTMENT, "limit": 760, "allocated": 750, "requested": 90,
    },
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: {"quota": 180, "allocated": 120, "requested": 90},
    Reason.NO_MATCHING_NODE: {"requested": 9000, "lacks": {"devices": 8}},
    Reason.INSUFFICIENT_RESOURCES: {"free": 100, "requested": 300, "lacks": {"gpu": 1}},
    Reason.FRAGMENTED: {"free": 900, "largest": 300, "requested": 500},
}  # fmt: skip
#: Of every other reason.
_NUMBERS: Numbers = {
    "level": Level.DEPARTMENT,
    "requested": 90,
    "next_try_at_us": int(_NEXT_TRY.timestamp()) * 1_000_000,
}
_EVENT_PARAMS: dict[str, object] = {
    "node": "card-01",
    "by": "lin",
    "placements": [{"node": "card-01", "devices": [0]}],
    "before": {"priority": 40},
    "after": {"priority": 80},
    "freed_mgpu": 90,
    "epoch": 21,
    "peak_mib": 5200,
    "exit_code": 1,
    "failures": 2,
    "max_attempts": 3,
    "pause_s": 10,
    "idle_s": 1800,
    "limit_s": 3600,
    "left_s": 1800,
    "from": 1,
    "to": 3,
    "metric": "concurrency",
    "value_milli": 5100,
    "target_milli": 1400,
    "ms": 8400,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonEntry:
    """A reason to wait: what is said, and what would have to change."""

    code: str
    why: str
    runs_when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A code with its word or sentence."""

    code: str
    text: str


def list_reasons() -> tuple[ReasonEntry, ...]:
    """Return every reason to wait, with an example of its sentences."""
    found = []
    for reason in Reason:
        said = why_waiting(
            code=reason, numbers=_REASON_NUMBERS.get(reason, _NUMBERS), queue="dev-test"
        )
        found.append(
            ReasonEntry(code=reason.value, why=plain(said.why), runs_when=plain(said.runs_when))
        )
    return tuple(found)


def list_events() -> tuple[Entry, ...]:
    """Return every event of a workload's timeline, with an example of its sentence."""
    found = []
    for code in sorted(timeline.EVENT_CODES):
        params = dict(_EVENT_PARAMS)
        if code == "waits":
            params = {**_REASON_NUMBERS[Reason.FRAGMENTED], "code": Reason.FRAGMENTED.value}
        row = models.WorkloadEvent(code=code, params=params)
        found.append(Entry(code=code, text=timeline.in_words(row, WHOLE_CLUSTER)))
    return tuple(found)


def list_verbs() -> tuple[Entry, ...]:
    """Return every verb of a decision with its word."""
    return tuple(
        Entry(code=verb, text=decision_words.verb_name(verb)) for verb in decision_words.SENTENCES
    )
