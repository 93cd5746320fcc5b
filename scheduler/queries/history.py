"""What was decided, as rows and sentences for one reader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from scheduler import models
from scheduler.core.units import format_gpu
from scheduler.core.vocabulary import Level
from scheduler.queries.decision_words import (
    SENTENCES,
    VERB_TONES,
    Params,
    int_of,
    list_of,
    places_of,
    sees,
    verb_name,
    workload_name,
)
from scheduler.queries.phrases import Phrase, join, phrase
from scheduler.queries.visibility import Visibility


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
    #: Of an eviction and of a start: where, in words.
    places: str = ""
    #: Of an eviction: what of its places was not free.
    shortfall_mgpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """What of the log is asked for."""

    verb: str = ""
    project_id: int | None = None
    before_id: int | None = None
    limit: int = 50


def list_decisions(
    *, visible: Visibility, pool_id: int | None = None, wanted: DecisionFilter
) -> tuple[DecisionRow, ...]:
    """Return the newest decisions about the reader's projects. Two queries."""
    rows = _filtered(visible, wanted)
    if pool_id is not None:
        rows = rows.filter(pool_id=pool_id)
    rows = rows.select_related("workload", "project__department").prefetch_related(
        "parties__workload", "parties__project"
    )
    return tuple(_decision(row, visible=visible) for row in rows.order_by("-id")[: wanted.limit])


def count_decisions_after(
    *, visible: Visibility, wanted: DecisionFilter, after_id: int, most: int
) -> int:
    """Return how many were decided after a decision, as filtered; no more than ``most`` are counted."""
    rows = _filtered(visible, wanted).filter(id__gt=after_id)
    return rows.order_by("-id")[:most].count()


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
        places=places_of(row.params) if row.params.get("placements") else "",
        shortfall_mgpu=int_of(row.params, "shortfall_mgpu"),
    )


def _filtered(visible: Visibility, wanted: DecisionFilter) -> QuerySet[models.Decision]:
    rows = models.Decision.objects.filter(visible.projects(prefix="project__"))
    if wanted.verb:
        rows = rows.filter(verb=wanted.verb)
    if wanted.project_id is not None:
        rows = rows.filter(project_id=wanted.project_id)
    if wanted.before_id is not None:
        rows = rows.filter(id__lt=wanted.before_id)
    return rows


def _decision(row: models.Decision, *, visible: Visibility) -> DecisionRow:
    return DecisionRow(
        id=row.id,
        at=row.at,
        cycle=row.cycle,
        verb=row.verb,
        verb_name=verb_name(row.verb),
        tone=VERB_TONES[row.verb],
        text=SENTENCES[row.verb](row, visible),
        workload_id=row.workload_id,
        project_id=row.project_id,
    )


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
                freed_mgpu=int_of(party.params, "freed_mgpu"),
                about=_("priority {priority}, {lost} s of work since its last mark").format(
                    priority=int_of(party.params, "priority"), lost=int_of(party.params, "lost_s")
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


def _checks(row: models.Decision, visible: Visibility) -> tuple[CheckRow, ...]:
    return tuple(
        CheckRow(text=_check_text(row, check, visible), holds=bool(check.get("holds")))
        for check in list_of(row.params, "checks")
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
        have=format_gpu(int_of(check, "have_mgpu")),
        asked=format_gpu(int_of(check, "request_mgpu")),
        bound=format_gpu(int_of(check, "bound_mgpu")),
    )
