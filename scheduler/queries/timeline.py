"""One workload's timeline: events as sentences in the reader's language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from scheduler import models
from scheduler.core.units import format_gpu
from scheduler.queries import decision_words, waiting
from scheduler.queries.phrases import Phrase, duration, phrase, plain, strong
from scheduler.queries.reasons_for import why_for
from scheduler.queries.visibility import Visibility

SHOWN = 200
Params = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """One line, the newest first."""

    at: datetime
    code: str
    tone: str
    text: Phrase
    decision_id: int | None


def list_timeline(*, visible: Visibility, workload: models.Workload) -> tuple[TimelineRow, ...]:
    """Return what happened to a workload that the reader may see. Two queries."""
    rows = models.WorkloadEvent.objects.filter(workload=workload).order_by("-at", "-id")
    rows = rows.select_related("decision__workload", "decision__project__department")[:SHOWN]
    return tuple(
        TimelineRow(
            at=row.at,
            code=row.code,
            tone=_TONES.get(row.code, ""),
            text=_SENTENCES[row.code](row, visible),
            decision_id=row.decision_id,
        )
        for row in rows
    )


Event = models.WorkloadEvent


def in_words(row: Event, visible: Visibility) -> str:
    """Return the sentence of one event as text."""
    return plain(_SENTENCES[row.code](row, visible))


def _by(template: str) -> Callable[[Event, Visibility], Phrase]:
    def sentence(row: Event, visible: Visibility) -> Phrase:
        return phrase(_(template), by=strong(row.params.get("by") or "?"))

    return sentence


def _still(template: str) -> Callable[[Event, Visibility], Phrase]:
    def sentence(row: Event, visible: Visibility) -> Phrase:
        return phrase(_(template))

    return sentence


def _placed(row: Event, visible: Visibility) -> Phrase:
    places = row.params.get("placements") or []
    names = [decision_words.place_name(str(p.get("node")), p.get("devices")) for p in places]
    return phrase(_("Placed on {place}"), place=strong(_(", ").join(names)))


def _waits(row: Event, visible: Visibility) -> Phrase:
    return why_for(
        visible=visible,
        code=str(row.params.get("code") or ""),
        numbers=row.params,
        project=row.decision.project if row.decision is not None else None,
    ).why


def _interrupted(template: str) -> Callable[[Event, Visibility], Phrase]:
    def sentence(row: Event, visible: Visibility) -> Phrase:
        decision = row.decision
        other: object = _("another project")
        if decision is not None and decision_words.sees(visible, decision.project):
            other = decision_words.workload_name(decision.workload, decision.project)
        freed_mgpu = row.params.get("freed_mgpu")
        return phrase(
            _(template),
            other=other,
            amount=format_gpu(freed_mgpu) if isinstance(freed_mgpu, int) else "?",
        )

    return sentence


def _priority(row: Event, visible: Visibility) -> Phrase:
    before, after = row.params.get("before") or {}, row.params.get("after") or {}
    return phrase(
        _("Priority changed from {before} to {after} by {by}"),
        before=before.get("priority", "?"),
        after=strong(after.get("priority", "?")),
        by=str(row.params.get("by") or "?"),
    )


def _mark(template: str) -> Callable[[Event, Visibility], Phrase]:
    def sentence(row: Event, visible: Visibility) -> Phrase:
        return phrase(_(template), mark=strong(waiting.mark_in_words(row.params) or "?"))

    return sentence


def _over_memory(row: Event, visible: Visibility) -> Phrase:
    peak = row.params.get("peak_mib")
    if isinstance(peak, int):
        return phrase(
            _("Took more memory than its slice ({peak} MiB) and is stopped"), peak=f"{peak:,}"
        )
    return phrase(_("Took more memory than its slice and is stopped"))


def _replica_ended(row: Event, visible: Visibility) -> Phrase:
    if row.params.get("signal"):
        return phrase(
            _("Replica {n} ended by signal {signal}"),
            n=row.params.get("ordinal", 0),
            signal=row.params["signal"],
        )
    if row.params.get("exit_code") is not None:
        return phrase(
            _("Replica {n} ended with exit code {code}"),
            n=row.params.get("ordinal", 0),
            code=row.params["exit_code"],
        )
    return phrase(_("Replica {n} ended"), n=row.params.get("ordinal", 0))


def _failed(template: str) -> Callable[[Event, Visibility], Phrase]:
    def sentence(row: Event, visible: Visibility) -> Phrase:
        words = phrase(
            _(template),
            n=row.params.get("failures", "?"),
            most=row.params.get("max_attempts") or "∞",
            pause=row.params.get("pause_s") or 0,
        )
        message = str(row.params.get("message") or "")
        return (*words, *phrase(" {message}", message=message)) if message else words

    return sentence


def _ended(row: Event, visible: Visibility) -> Phrase:
    code = str(row.params.get("code") or "")
    if code == "idle":
        return phrase(_("Stopped by the idle rule"))
    if code == "runtime":
        return phrase(_("Stopped at its time limit"))
    if code == "deleted":
        return phrase(_("Stopped, to be deleted"))
    return phrase(_("Stopped"))


def _seconds(row: Event, name: str) -> str:
    value = row.params.get(name)
    return duration(value) if isinstance(value, int) else "?"


def _idle_rule(template: str) -> Callable[[Event, Visibility], Phrase]:
    def sentence(row: Event, visible: Visibility) -> Phrase:
        return phrase(
            _(template),
            idle=_seconds(row, "idle_s"),
            limit=strong(_seconds(row, "limit_s")),
            left=_seconds(row, "left_s"),
        )

    return sentence


def _drained(row: Event, visible: Visibility) -> Phrase:
    sentence = _("Asked to leave {node}, which is emptied; it starts again elsewhere")
    if row.params.get("due"):
        sentence = _("Asked to leave {node}: the time set for emptying it is over")
    return phrase(sentence, node=strong(row.params.get("node") or "?"))


def _replaced(row: Event, visible: Visibility) -> Phrase:
    return phrase(
        _("Another replica answers in its place: replica {n} leaves {node}, which is emptied"),
        n=row.params.get("ordinal", 0),
        node=strong(row.params.get("node") or "?"),
    )


def _scaled(row: Event, visible: Visibility) -> Phrase:
    after, before = int(row.params.get("to") or 0), row.params.get("from")
    places = {"n": strong(after), "before": str(before)}
    value = row.params.get("panic_value_milli" if row.params.get("panicking") else "value_milli")
    if value is None or before is None:
        text = ngettext("Scaled to {n} replica", "Scaled to {n} replicas", after)
        return phrase(text, **places)
    places |= {"value": _milli(value), "target": _milli(row.params.get("target_milli"))}
    sentence = {
        "concurrency": _("Replicas {before} → {n}: concurrency {value}, target of one {target}"),
        "throughput": _("Replicas {before} → {n}: {value} requests/s, target of one {target}"),
        "latency": _("Replicas {before} → {n}: latency {value} ms, threshold {target} ms"),
        "custom": _("Replicas {before} → {n}: its own number {value}, threshold {target}"),
    }.get(str(row.params.get("metric")), _("Replicas {before} → {n}: {value} requests here"))
    return phrase(sentence, **places)


def _milli(value: object) -> str:
    """Return thousandths as a number with at most two places."""
    return f"{int(str(value or 0)) / 1000:.2f}".rstrip("0").rstrip(".")


def _cold_start(row: Event, visible: Visibility) -> Phrase:
    seconds = f"{int(row.params.get('ms') or 0) / 1000:.1f}"
    return phrase(_("First replica answers {s} s after it was asked for"), s=strong(seconds))


_SENTENCES: dict[str, Callable[[Event, Visibility], Phrase]] = {
    "submitted": _by(gettext_noop("Submitted by {by}")),
    "stop_requested": _by(gettext_noop("Stop asked for by {by}")),
    "start_requested": _by(gettext_noop("Started again by {by}")),
    "delete_requested": _by(gettext_noop("Delete asked for by {by}")),
    "priority_changed": _priority,
    "placed": _placed,
    "running": _still(gettext_noop("Running")),
    "waits": _waits,
    "served_by_reclaim": _still(gettext_noop("Takes its guarantee back; its place is vacated")),
    "served_by_preempt": _still(
        gettext_noop("Takes the place of lower-priority work; it is vacated")
    ),
    "served_by_consolidate": _still(gettext_noop("Work is moved to make room for it")),
    "reclaimed": _interrupted(
        gettext_noop("Reclaimed: {other} takes back {amount} GPU that was borrowed")
    ),
    "preempted": _interrupted(
        gettext_noop("Preempted: {other} has the higher priority and takes {amount} GPU")
    ),
    "consolidate": _still(gettext_noop("Moved, to make one hole out of several")),
    "lost": _still(gettext_noop("Fell below its minimum by a loss and waits again")),
    "over_memory": _over_memory,
    "replica_ended": _replica_ended,
    "first_checkpoint": _mark(gettext_noop("First checkpoint at {mark}")),
    "resumed_equal": _mark(gettext_noop("Resumed at {mark}: equal to the checkpoint")),
    "resumed_with_loss": _mark(gettext_noop("Resumed with loss, at {mark}")),
    "failed_retrying": _failed(gettext_noop("Failed ({n} of {most}); tries again in {pause} s.")),
    "gave_up": _failed(gettext_noop("Failed ({n} of {most}); not tried again.")),
    "stopped": _ended,
    "completed": _still(gettext_noop("Finished")),
    "failed": _still(gettext_noop("Failed")),
    "idle_warned": _idle_rule(
        gettext_noop("Idle for {idle}: the rule stops it after {limit}, in {left}")
    ),
    "idle_stop": _idle_rule(gettext_noop("Idle for {idle}: its rule of {limit} stops it")),
    "runtime_stop": _idle_rule(gettext_noop("Has run for {limit}, its time limit, and is stopped")),
    "requested": _by(gettext_noop("Asked for by {by} as a request to serve")),
    "kept": _by(gettext_noop("Kept by {by}: the idle clock begins anew")),
    "scaled": _scaled,
    "drained": _drained,
    "replaced": _replaced,
    "draining": _still(gettext_noop("A replica gets no new requests and finishes what it has")),
    "cold_start": _cold_start,
}

_TONES = {
    "running": "ok",
    "completed": "ok",
    "resumed_equal": "ok",
    "reclaimed": "evict",
    "preempted": "evict",
    "lost": "evict",
    "drained": "over",
    "over_memory": "evict",
    "idle_warned": "over",
    "idle_stop": "over",
    "runtime_stop": "over",
    "resumed_with_loss": "over",
    "failed_retrying": "over",
    "gave_up": "evict",
    "failed": "evict",
}
EVENT_CODES = frozenset(_SENTENCES)
