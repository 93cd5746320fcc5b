"""What was decided and what happened to a workload, as sentences for one reader.

Another party outside the reader's scope is named as *another project* only: no name, size or link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduler import models
from scheduler.core.units import format_gpu
from scheduler.core.vocabulary import Level
from scheduler.queries.phrases import Phrase, Span, duration, join, phrase, strong
from scheduler.queries.reasons_for import why_for
from scheduler.queries.visibility import Visibility

Params = Mapping[str, object]

#: The closed set of verbs of a decision, with the color of its tag.
VERB_TONES = {
    "place": "ok",
    "resume": "ok",
    "reclaim": "evict",
    "preempt": "evict",
    "consolidate": "acc",
    "lost": "evict",
    "stop": "",
    "deny": "",
    "scale": "acc",
    "idle_stop": "over",
    "runtime_stop": "over",
    "quota": "acc",
    "fail": "evict",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One comparison that a decision rests on."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimRow:
    """One workload that a decision interrupted, as far as the reader may know it."""

    name: Phrase
    freed_mgpu: int | None
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """One act of the scheduler or of a person, in words."""

    id: int
    at: datetime
    cycle: int
    verb: str
    verb_name: str
    tone: str
    text: Phrase
    workload_id: int | None
    project_id: int | None
    checks: tuple[CheckRow, ...] = ()
    victims: tuple[VictimRow, ...] = ()
    spared: Phrase = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """What of the log is asked for."""

    verb: str = ""
    project_id: int | None = None
    before_id: int | None = None
    limit: int = 50


def verb_name(verb: str) -> str:
    """Return a verb's word on screen."""
    return {
        "place": _("Place"),
        "resume": _("Resume"),
        "reclaim": _("Reclaim"),
        "preempt": _("Preempt"),
        "consolidate": _("Move"),
        "lost": _("Lost"),
        "stop": _("Stop"),
        "deny": _("Deny"),
        "scale": _("Scale"),
        "idle_stop": _("Idle stop"),
        "runtime_stop": _("Time limit"),
        "quota": _("Quota change"),
        "fail": _("Failed"),
    }[verb]


def list_decisions(
    *, visible: Visibility, pool_id: int | None = None, wanted: DecisionFilter
) -> tuple[DecisionRow, ...]:
    """Return the newest decisions about the reader's projects. Two queries."""
    rows = models.Decision.objects.filter(visible.projects(prefix="project__"))
    if pool_id is not None:
        rows = rows.filter(pool_id=pool_id)
    if wanted.verb:
        rows = rows.filter(verb=wanted.verb)
    if wanted.project_id is not None:
        rows = rows.filter(project_id=wanted.project_id)
    if wanted.before_id is not None:
        rows = rows.filter(id__lt=wanted.before_id)
    rows = rows.select_related("workload", "project__department").prefetch_related(
        "parties__workload", "parties__project"
    )
    return tuple(_decision(row, visible=visible) for row in rows.order_by("-id")[: wanted.limit])


def list_decisions_after(
    *, visible: Visibility, after_id: int | None, limit: int
) -> tuple[DecisionRow, ...]:
    """Return what was decided after a decision, the oldest first; where that is None the newest one."""
    rows = models.Decision.objects.filter(visible.projects(prefix="project__"))
    rows = rows.select_related("workload", "project__department").prefetch_related(
        "parties__workload", "parties__project"
    )
    if after_id is None:
        found = list(rows.order_by("-id")[:1])
    else:
        found = list(rows.filter(id__gt=after_id).order_by("id")[:limit])
    return tuple(_decision(row, visible=visible) for row in found)


def read_decision(*, visible: Visibility, decision_id: int) -> DecisionRow | None:
    """Return one decision with its checks, or None where there is none for the reader."""
    row = (
        models.Decision.objects.filter(visible.projects(prefix="project__"), pk=decision_id)
        .select_related("workload", "project__department")
        .prefetch_related("parties__workload", "parties__project")
        .first()
    )
    if row is None:
        return None
    return replace(
        _decision(row, visible=visible),
        checks=_checks(row, visible),
        victims=_victim_rows(row, visible),
        spared=_spared(row, visible),
    )


def _decision(row: models.Decision, *, visible: Visibility) -> DecisionRow:
    return DecisionRow(
        id=row.id,
        at=row.at,
        cycle=row.cycle,
        verb=row.verb,
        verb_name=verb_name(row.verb),
        tone=VERB_TONES[row.verb],
        text=_DECISIONS[row.verb](row, visible),
        workload_id=row.workload_id,
        project_id=row.project_id,
    )


def sees(visible: Visibility, project: models.Project | None) -> bool:
    """Test whether a reader may know of a project."""
    if project is None:
        return False
    return (
        visible.cluster
        or project.pk in visible.project_ids
        or project.department_id in visible.department_ids
    )


def workload_name(workload: models.Workload | None, project: models.Project | None) -> Span:
    """Return "project / workload" as a linked name."""
    if workload is None:
        return strong(project.name if project else _("a deleted workload"))
    name = f"{project.name} / {workload.name}" if project else workload.name
    return strong(name, workload_id=workload.pk)


def _subject(row: models.Decision) -> Span:
    return workload_name(row.workload, row.project)


def _place(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload} starts on {place}"), workload=_subject(row), place=_places(row.params)
    )


def _resume(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload} starts again on {place}"), workload=_subject(row), place=_places(row.params)
    )


def _reclaim(row: models.Decision, visible: Visibility) -> Phrase:
    sentence = phrase(
        _("{workload} over {victims}"), workload=_subject(row), victims=_victims(row, visible)
    )
    return join((sentence, _guarantee(row)), separator=_("; "))


def _preempt(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload} over {victims}, by priority"),
        workload=_subject(row),
        victims=_victims(row, visible),
    )


def _consolidate(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(_("Work is moved to make room for {workload}"), workload=_subject(row))


def _lost(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(_("{workload} lost what it ran on and waits again"), workload=_subject(row))


def _stop(row: models.Decision, visible: Visibility) -> Phrase:
    by = str(row.params.get("by") or "")
    if by:
        return phrase(_("{workload} stopped by {by}"), workload=_subject(row), by=by)
    return phrase(_("{workload} stopped"), workload=_subject(row))


def _deny(row: models.Decision, visible: Visibility) -> Phrase:
    waiting = why_for(
        visible=visible,
        code=str(row.params.get("code") or ""),
        numbers=row.params,
        project=row.project,
    )
    return phrase(_("{workload}: {why}"), workload=_subject(row), why=waiting.why)


def _scale(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload} from {before} to {after} replicas"),
        workload=_subject(row),
        before=row.params.get("from", "?"),
        after=row.params.get("to", "?"),
    )


def _idle_stop(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload}, idle for {idle} of {limit} allowed"),
        workload=_subject(row),
        idle=duration(_int(row.params, "idle_s")),
        limit=duration(_int(row.params, "limit_s")),
    )


def _runtime_stop(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload} has run for {limit}, its time limit"),
        workload=_subject(row),
        limit=duration(_int(row.params, "limit_s")),
    )


def _quota(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{project} changed by {by}"),
        project=strong(row.project.name if row.project else ""),
        by=str(row.params.get("by") or "?"),
    )


def _fail(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(_("{workload} failed"), workload=_subject(row))


_DECISIONS: dict[str, Callable[[models.Decision, Visibility], Phrase]] = {
    "place": _place,
    "resume": _resume,
    "reclaim": _reclaim,
    "preempt": _preempt,
    "consolidate": _consolidate,
    "lost": _lost,
    "stop": _stop,
    "deny": _deny,
    "scale": _scale,
    "idle_stop": _idle_stop,
    "runtime_stop": _runtime_stop,
    "quota": _quota,
    "fail": _fail,
}


def _victims(row: models.Decision, visible: Visibility) -> Phrase:
    victims = [p for p in row.parties.all() if p.role == models.DecisionParty.Role.VICTIM]
    known = [p for p in sorted(victims, key=lambda p: p.position) if sees(visible, p.project)]
    names: list[Phrase] = [(workload_name(p.workload, p.project),) for p in known[:3]]
    more = len(known) - 3
    if more > 0:
        names.append(phrase(ngettext("{n} more", "{n} more", more), n=more))
    if len(known) < len(victims):
        names.append(phrase(_("another project's work")))
    return join(names, separator=_(", "))


def _victim_rows(row: models.Decision, visible: Visibility) -> tuple[VictimRow, ...]:
    rows = []
    for party in row.parties.all():
        if party.role != models.DecisionParty.Role.VICTIM:
            continue
        if not sees(visible, party.project):
            rows.append(
                VictimRow(name=phrase(_("another project's work")), freed_mgpu=None, about="")
            )
            continue
        name = (workload_name(party.workload, party.project),)
        rows.append(
            VictimRow(
                name=name,
                freed_mgpu=_int(party.params, "freed_mgpu"),
                about=_("priority {priority}, {lost} s of work since its last mark").format(
                    priority=_int(party.params, "priority"), lost=_int(party.params, "lost_s")
                ),
            )
        )
    return tuple(rows)


def _spared(row: models.Decision, visible: Visibility) -> Phrase:
    spared = [
        (workload_name(party.workload, party.project),)
        for party in row.parties.all()
        if party.role == models.DecisionParty.Role.SPARED and sees(visible, party.project)
    ]
    return join(spared, separator=_(", "))


def _guarantee(row: models.Decision) -> Phrase:
    """Return the figure that made the request entitled: what the project held of its guarantee."""
    for check in _list(row.params, "checks"):
        if check.get("level") == Level.PROJECT:
            return phrase(
                _("{project} held {held} of {quota} guaranteed"),
                project=row.project.name if row.project else "",
                held=format_gpu(_int(check, "have_mgpu")),
                quota=format_gpu(_int(check, "bound_mgpu")),
            )
    return ()


def _checks(row: models.Decision, visible: Visibility) -> tuple[CheckRow, ...]:
    return tuple(
        CheckRow(text=_check_text(row, check, visible), holds=bool(check.get("holds")))
        for check in _list(row.params, "checks")
    )


def _check_text(row: models.Decision, check: Params, visible: Visibility) -> str:
    """Return a comparison with its figures; those of a department only to whom they may be told."""
    at_project = check.get("level") == Level.PROJECT
    name = ""
    if row.project is not None:
        name = row.project.name if at_project else row.project.department.name
        if not at_project and not visible.tells_of(row.project.department_id):
            return _("{queue} as a whole").format(queue=name)
    return _("{queue}: {have} + {asked} within {bound}").format(
        queue=name,
        have=format_gpu(_int(check, "have_mgpu")),
        asked=format_gpu(_int(check, "request_mgpu")),
        bound=format_gpu(_int(check, "bound_mgpu")),
    )


def _places(params: Params) -> str:
    places = [
        place_name(str(place.get("node", "")), place.get("devices"))
        for place in _list(params, "placements")
    ]
    return _(", ").join(places) if places else _("a node")


def place_name(node: str, devices: object) -> str:
    """Return "h100-03 GPU 7", or the node alone where no device is held."""
    if not isinstance(devices, Iterable) or isinstance(devices, str):
        return node
    indices = [str(index) for index in devices]
    return f"{node} GPU {_(', ').join(indices)}" if indices else node


def _list(params: Params, key: str) -> list[Params]:
    value = params.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _int(params: Params, key: str) -> int:
    value = params.get(key)
    return value if isinstance(value, int) else 0
