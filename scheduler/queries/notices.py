"""What one person was told: sentences in the reader's language, made from codes and numbers.

Who else took part is named only as far as the reader may see it at this moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from scheduler import models
from scheduler.core.notices import KIND_OF, PAGE, Kind
from scheduler.core.units import UNLIMITED_MGPU, format_gpu
from scheduler.core.vocabulary import Phase
from scheduler.queries import decision_words, emergency_words
from scheduler.queries.alert_words import alert_in_words
from scheduler.queries.phrases import Phrase, Span, duration, join, phrase, strong
from scheduler.queries.reasons_for import why_for
from scheduler.queries.visibility import Visibility

SHOWN = 200
#: Of like notices so many stand with their names; the others are counted.
NAMED_IN_GROUP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One line, of one notice or of several like ones. ``unread``: it has not been shown before."""

    id: int
    at: datetime
    code: str
    kind: Kind
    text: Phrase
    unread: bool
    workload_id: int | None = None
    count: int = 1


def count_unread(*, username: str) -> int:
    """Return how many lines a person has not seen. One query."""
    return models.Notification.objects.filter(username=username, read_at=None).count()


def list_notices(*, username: str, visible: Visibility) -> tuple[Notice, ...]:
    """Return the newest lines of a person that it wants on the page; like ones are one line."""
    chosen = settings_of(username=username)
    rows = _rows().filter(username=username).order_by("-id")[:SHOWN]
    wanted = [row for row in rows if PAGE in chosen.channels_for(row.code)]
    return tuple(_notice(group, visible) for group in _grouped(wanted))


def list_in_message(*, ids: Sequence[int], visible: Visibility) -> tuple[Notice, ...]:
    """Return the lines of one message, oldest first; like ones are one line."""
    rows = list(_rows().filter(pk__in=ids).order_by("id"))
    return tuple(_notice(group, visible) for group in _grouped(rows))


def settings_of(*, username: str) -> models.NoticeSettings:
    """Return what a person chose, or the defaults."""
    found = models.NoticeSettings.objects.filter(username=username).first()
    return found or models.NoticeSettings(username=username)


def _rows() -> QuerySet[models.Notification]:
    return models.Notification.objects.select_related("workload__project__department")


def _grouped(rows: Sequence[models.Notification]) -> list[list[models.Notification]]:
    """Put like notices that follow each other together: of one decision, or within one minute."""
    groups: list[list[models.Notification]] = []
    for row in rows:
        if groups and _alike(groups[-1][-1], row):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _alike(first: models.Notification, second: models.Notification) -> bool:
    if first.code != second.code or first.code not in _MANY:
        return False
    if (first.read_at is None) != (second.read_at is None):
        return False
    return abs((first.at - second.at).total_seconds()) <= 60


def _notice(rows: Sequence[models.Notification], visible: Visibility) -> Notice:
    row = rows[0]
    return Notice(
        id=row.pk,
        at=row.at,
        code=row.code,
        kind=KIND_OF.get(row.code, Kind.STATE),
        text=_many(rows, visible) if len(rows) > 1 else _text(row, visible),
        unread=row.read_at is None,
        workload_id=row.workload_id if len(rows) == 1 else None,
        count=len(rows),
    )


def _text(row: models.Notification, visible: Visibility) -> Phrase:
    if row.code in ("reclaimed", "preempted"):
        return _taken(row, visible)
    if row.code == "quota_changed":
        return _quota(row)
    if row.code in ("alert_raised", "alert_cleared"):
        return alert_in_words(row.code, row.params)
    if row.code in ("emergency_set", "emergency_ended"):
        return emergency_words.told(row.code, row.params)
    params: Mapping[str, object] = row.params
    template = {
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
    }[row.code]
    return phrase(
        template,
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


def _drain_begun(params: Mapping[str, object]) -> str:
    if "left_s" in params:
        return _("Node {node}, on which {workload} runs, is emptied within {left}.")
    return _("Node {node}, on which {workload} runs, is emptied.")


#: Codes of which many at a time are one line.
_MANY = frozenset(
    {
        "work_running", "work_completed", "work_failed", "work_stopped", "work_lost", "moved",
        "reclaimed", "preempted", "idle_warned", "idle_stop", "drained", "drain_begun",
    }
)  # fmt: skip


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


# --- What is set, and what is on its way ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRow:
    """One's own way outside of the pages. ``shown``: what may be shown of its address."""

    id: int
    type: str
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """One message on its way, gone, or dead."""

    id: str
    type: str
    created_at: datetime
    status: str
    attempts: int
    next_at: datetime
    error: str
    notices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """Something whose audience is still to be told."""

    id: int
    audience: str
    department_id: int | None
    project_id: int | None


def list_channels(*, username: str) -> tuple[ChannelRow, ...]:
    """Return a person's channels."""
    rows = models.NoticeChannel.objects.filter(username=username).order_by("type")
    return tuple(ChannelRow(id=row.pk, type=row.type, shown=row.shown) for row in rows)


def list_deliveries(*, username: str, limit: int = 30) -> tuple[DeliveryRow, ...]:
    """Return a person's last messages, dead ones first."""
    mine = models.NoticeDelivery.objects.filter(channel__username=username)
    dead = models.NoticeDelivery.objects.filter(
        pk=OuterRef("pk"), status=models.NoticeDelivery.Status.DEAD
    )
    rows = mine.select_related("channel").order_by(Exists(dead).desc(), "-created_at")[:limit]
    return tuple(
        DeliveryRow(
            id=str(row.pk),
            type=row.channel.type,
            created_at=row.created_at,
            status=row.status,
            attempts=row.attempts,
            next_at=row.next_at,
            error=row.error,
            notices=len(row.notices),
        )
        for row in rows
    )


def list_announced(*, limit: int = 100) -> tuple[Announced, ...]:
    """Return what is still to be told to its audience, oldest first."""
    rows = models.Announcement.objects.filter(told_at=None).select_related("project")
    return tuple(
        Announced(
            id=row.pk,
            audience=row.audience,
            department_id=row.project.department_id if row.project else row.department_id,
            project_id=row.project_id,
        )
        for row in rows.order_by("id")[:limit]
    )
