"""Sentences of notices in the reader's language, made from codes and numbers.

Who else took part is named only as far as the reader may see it at this moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _

from scheduler import models
from scheduler.core.units import UNLIMITED_MGPU, format_gpu
from scheduler.core.vocabulary import Phase
from scheduler.queries import decision_words, emergency_words
from scheduler.queries.alert_words import alert_in_words
from scheduler.queries.phrases import Phrase, Span, duration, join, phrase, strong
from scheduler.queries.reasons_for import why_for
from scheduler.queries.visibility import Visibility

#: Of like notices so many stand with their names; the others are counted.
NAMED_IN_GROUP = 3
#: Codes of which many at a time are one line.
TOGETHER = frozenset(
    {
        "work_running", "work_completed", "work_failed", "work_stopped", "work_lost", "moved",
        "reclaimed", "preempted", "idle_warned", "idle_stop", "drained", "drain_begun",
    }
)  # fmt: skip


def words_of(rows: Sequence[models.Notification], *, visible: Visibility) -> Phrase:
    """Return the sentence of one notice, or of several whose code is in ``TOGETHER``."""
    return _many(rows, visible) if len(rows) > 1 else _one(rows[0], visible)


def _one(row: models.Notification, visible: Visibility) -> Phrase:
    if row.code in ("reclaimed", "preempted"):
        return _taken(row, visible)
    if row.code == "quota_changed":
        return _quota(row)
    if row.code in ("alert_raised", "alert_cleared"):
        return alert_in_words(row.code, row.params)
    if row.code in ("emergency_set", "emergency_ended"):
        return emergency_words.told(row.code, row.params)
    params: Mapping[str, object] = row.params
    return phrase(
        _sentence(row.code, params),
        workload=_name(row, params),
        project=str(params.get("project") or ""),
        node=strong(params.get("node") or "?"),
        by=strong(params.get("by") or "?"),
        answer=str(params.get("answer") or ""),
        **{name: str(params.get(name) or "") for name in ("percent", "month", "cost", "budget")},
        schedule=strong(params.get("schedule") or "?"),
        unit=strong(params.get("unit") or "?"),
        holders=str(params.get("holders") or ""),
        **{name: _gpus(params, name) for name in ("target", "reached")},
        exit_code=str(params.get("exit_code", "?")),
        **{name: _seconds(params, f"{name}_s") for name in ("idle", "left", "limit")},
    )


def _sentence(code: str, params: Mapping[str, object]) -> str:
    """Return the sentence of what is told with names and numbers alone."""
    sentences = {
        "work_running": _("{workload} runs."),
        "work_completed": _("{workload} has finished."),
        "work_failed": _("{workload} has failed, with exit code {exit_code}."),
        "work_stopped": _("{workload} was stopped by {by}."),
        "work_lost": _("{workload} fell below its minimum by a loss and waits again."),
        "moved": _("{workload} is moved to another place and runs again at once."),
        "idle_warned": _("{workload} is idle for {idle}: its rule stops it in {left}."),
        "idle_stop": _(
            "{workload} was stopped after {limit} of idle time. It can be started again."
        ),
        "runtime_warned": _("{workload} comes to its time limit of {limit} in {left}."),
        "runtime_stop": _("{workload} was stopped: it has run for {limit}, its time limit."),
        "quota_switch_short": _(
            "{schedule} wants {target} for {unit}; it stays at {reached}, which {holders} holds and "
            "can not be interrupted. It goes on when that comes free."
        ),
        "quota_switch_arrived": _("{schedule} has come to {target} for {unit}."),
        "quota_switch_refused": _(
            "{schedule} could not switch. Why stands at the scheduled changes; it is tried again "
            "each minute."
        ),
        "serve_requested": _("{by} asks to put {workload} into service in {project}."),
        "serve_approved": _("{by} approved {workload} in {project}: it is submitted. {answer}"),
        "serve_declined": _("{by} declined {workload} in {project}. {answer}"),
        "drain_begun": _drain_begun(params),
        "drained": _(
            "{workload} leaves node {node}, which is emptied, and starts again elsewhere."
        ),
        "node_emptied": _("Node {node} is empty."),
        "drain_late": _("Node {node} is not empty, although the time set for that is over."),
        "node_lost": _("Node {node} is lost: it does not answer, and nothing new comes there."),
        "node_back": _("Node {node} is back."),
        "budget_reached": _(
            "{project} has spent {percent}% of its budget for {month}: {cost} of {budget}."
        ),
    }
    return sentences[code]


def _drain_begun(params: Mapping[str, object]) -> str:
    if "left_s" in params:
        return _("Node {node}, on which {workload} runs, is emptied within {left}.")
    return _("Node {node}, on which {workload} runs, is emptied.")


def _many(rows: Sequence[models.Notification], visible: Visibility) -> Phrase:
    n = len(rows)
    template = {
        "work_running": _("{n} workloads run: {names}."),
        "work_completed": _("{n} workloads have finished: {names}."),
        "work_failed": _("{n} workloads have failed: {names}."),
        "work_stopped": _("{n} workloads were stopped: {names}."),
        "work_lost": _("{n} workloads fell below their minimum: {names}."),
        "moved": _("{n} workloads are moved: {names}."),
        "drained": _("{n} workloads leave nodes that are emptied: {names}."),
        "drain_begun": _("Nodes on which {n} workloads run are emptied: {names}."),
        "reclaimed": _("{n} workloads were reclaimed by {other}: {names}."),
        "preempted": _("{n} workloads were preempted by {other}: {names}."),
        "idle_warned": _("{n} workloads are idle and will be stopped: {names}."),
        "idle_stop": _("{n} workloads were stopped by their idle rules: {names}."),
    }[rows[0].code]
    named: list[Phrase] = [(_name(row, row.params),) for row in rows[:NAMED_IN_GROUP]]
    if n > NAMED_IN_GROUP:
        named.append(phrase(_("{n} more"), n=n - NAMED_IN_GROUP))
    words = phrase(
        template, n=n, names=join(named, separator=_(", ")), other=_others(rows, visible)
    )
    return join((words, _back_of_many(rows)))


def _taken(row: models.Notification, visible: Visibility) -> Phrase:
    template = (
        _("{workload} was reclaimed: {other} takes back {amount} GPU that was borrowed.")
        if row.code == "reclaimed"
        else _("{workload} was preempted: {other} has the higher priority and takes {amount} GPU.")
    )
    freed_mgpu = row.params.get("freed_mgpu")
    words = phrase(
        template,
        workload=_name(row, row.params),
        other=_others([row], visible),
        amount=format_gpu(freed_mgpu) if isinstance(freed_mgpu, int) else "?",
    )
    return join((words, _back(row.workload, visible)))


def _others(rows: Sequence[models.Notification], visible: Visibility) -> Phrase:
    """Name whom the places went to, where the reader may know; else only that it is another."""
    ids = {row.params.get("decision") for row in rows}
    decisions = models.Decision.objects.filter(
        pk__in=[each for each in ids if isinstance(each, int)]
    ).select_related("workload", "project__department")
    names: dict[str, Phrase] = {}
    for decision in decisions:
        project = decision.project
        if project is not None and decision_words.sees(visible, project):
            found: Phrase = tuple(
                phrase("{x}", x=decision_words.workload_name(decision.workload, project))
            )
        else:
            found = phrase(_("another project, within its guarantee"))
        names["".join(span.text for span in found)] = found
    if not names:
        return phrase(_("another project, within its guarantee"))
    return join(names.values(), separator=_(", "))


def _back(workload: models.Workload | None, visible: Visibility) -> Phrase:
    """Say when it will be back, as far as can be known: what it waits for, or that it runs."""
    if workload is None:
        return ()
    phase = Phase(workload.phase)
    if phase in (Phase.RUNNING, Phase.DEGRADED):
        return phrase(_("It runs again."))
    if phase in (Phase.STARTING, Phase.STOPPING):
        return phrase(_("It waits for its turn and starts again by itself."))
    if phase is not Phase.PENDING:
        return ()
    found = why_for(
        visible=visible,
        code=workload.reason_code,
        numbers=workload.reason,
        project=workload.project,
    )
    return found.runs_when or phrase(_("It waits for its turn and starts again by itself."))


def _back_of_many(rows: Sequence[models.Notification]) -> Phrase:
    if rows[0].code not in ("reclaimed", "preempted"):
        return ()
    phases = [Phase(row.workload.phase) for row in rows if row.workload is not None]
    running = sum(phase in (Phase.RUNNING, Phase.DEGRADED) for phase in phases)
    return phrase(
        _("{running} of them run again; the others wait for their turn and start by themselves."),
        running=running,
    )


def _quota(row: models.Notification) -> Phrase:
    changes = row.params.get("changes")
    changes = changes if isinstance(changes, dict) else {}
    words = {
        "quota_mgpu": _("guarantee {before} to {after}"),
        "limit_mgpu": _("limit {before} to {after}"),
        "over_quota": _("borrowing {before} to {after}"),
        "rank": _("rank {before} to {after}"),
        "weight_milli": _("weight {before} to {after}"),
    }
    parts = [
        phrase(words[name], before=_value(name, pair[0]), after=strong(_value(name, pair[1])))
        for name, pair in changes.items()
        if name in words
    ]
    return phrase(
        _("{by} changed the quota of {unit} in {pool}: {changes}."),
        by=strong(row.params.get("by") or "?"),
        unit=strong(row.params.get("name") or "?"),
        pool=str(row.params.get("pool") or "?"),
        changes=join(parts, separator=_(", ")) or phrase(_("other values")),
    )


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if name == "weight_milli" and isinstance(value, int):
        return f"{value / 1000:g}"
    if name.endswith("_mgpu") and isinstance(value, int):
        return _("no limit") if value >= UNLIMITED_MGPU else format_gpu(value)
    return str(value)


def _name(row: models.Notification, params: Mapping[str, object]) -> Span:
    if row.workload is not None:
        return strong(row.workload.name, workload_id=row.workload.pk)
    return strong(params.get("name") or "?")


def _gpus(params: Mapping[str, object], name: str) -> str:
    value = params.get(name)
    return format_gpu(value) if isinstance(value, int) else "?"


def _seconds(params: Mapping[str, object], name: str) -> str:
    value = params.get(name)
    return duration(value) if isinstance(value, int) else "?"
