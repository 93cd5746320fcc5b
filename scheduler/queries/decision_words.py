"""The words of a decision: its verb, its sentence for one reader, and the names in it.

Another party outside the reader's scope is named as *another project* only: no name, size or link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
    "drain": "over",
    "idle_stop": "over",
    "runtime_stop": "over",
    "quota": "acc",
    "fail": "evict",
}


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
        "drain": _("Drain"),
        "idle_stop": _("Idle stop"),
        "runtime_stop": _("Time limit"),
        "quota": _("Quota change"),
        "fail": _("Failed"),
    }[verb]


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
        _("{workload} starts on {place}"), workload=_subject(row), place=places_of(row.params)
    )


def _resume(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload} starts again on {place}"), workload=_subject(row), place=places_of(row.params)
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


def _drain(row: models.Decision, visible: Visibility) -> Phrase:
    sentence = _("{workload} leaves {node}, which is emptied by {by}, and starts again elsewhere")
    if row.params.get("due"):
        sentence = _("{workload} leaves {node}: the time that {by} set for emptying it is over")
    return phrase(
        sentence,
        workload=_subject(row),
        node=strong(row.params.get("node") or "?"),
        by=str(row.params.get("by") or "?"),
    )


def _idle_stop(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload}, idle for {idle} of {limit} allowed"),
        workload=_subject(row),
        idle=duration(int_of(row.params, "idle_s")),
        limit=duration(int_of(row.params, "limit_s")),
    )


def _runtime_stop(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{workload} has run for {limit}, its time limit"),
        workload=_subject(row),
        limit=duration(int_of(row.params, "limit_s")),
    )


def _quota(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(
        _("{project} changed by {by}"),
        project=strong(row.project.name if row.project else ""),
        by=str(row.params.get("by") or "?"),
    )


def _fail(row: models.Decision, visible: Visibility) -> Phrase:
    return phrase(_("{workload} failed"), workload=_subject(row))


#: A sentence for each verb.
SENTENCES: dict[str, Callable[[models.Decision, Visibility], Phrase]] = {
    "place": _place,
    "resume": _resume,
    "reclaim": _reclaim,
    "preempt": _preempt,
    "consolidate": _consolidate,
    "lost": _lost,
    "stop": _stop,
    "deny": _deny,
    "scale": _scale,
    "drain": _drain,
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


def _guarantee(row: models.Decision) -> Phrase:
    """Return the figure that made the request entitled: what the project held of its guarantee."""
    for check in list_of(row.params, "checks"):
        if check.get("level") == Level.PROJECT:
            return phrase(
                _("{project} held {held} of {quota} guaranteed"),
                project=row.project.name if row.project else "",
                held=format_gpu(int_of(check, "have_mgpu")),
                quota=format_gpu(int_of(check, "bound_mgpu")),
            )
    return ()


def places_of(params: Params) -> str:
    """Return the places of a decision in words."""
    places = [
        place_name(str(place.get("node", "")), place.get("devices"))
        for place in list_of(params, "placements")
    ]
    return _(", ").join(places) if places else _("a node")


def place_name(node: str, devices: object) -> str:
    """Return "h100-03 GPU 7", or the node alone where no device is held."""
    if not isinstance(devices, Iterable) or isinstance(devices, str):
        return node
    indices = [str(index) for index in devices]
    return f"{node} GPU {_(', ').join(indices)}" if indices else node


def list_of(params: Params, key: str) -> list[Params]:
    """Return a list of mappings that a decision keeps; empty where it has none."""
    value = params.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def int_of(params: Params, key: str) -> int:
    """Return a number that a decision keeps; 0 where it has none."""
    value = params.get(key)
    return value if isinstance(value, int) else 0
