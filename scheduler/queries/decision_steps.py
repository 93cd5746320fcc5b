"""A decision step by step, as one would check it: each step with its figures and whether it holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from scheduler.core.units import format_gpu
from scheduler.queries.history import DecisionRow
from scheduler.queries.phrases import Phrase, Span, phrase, plain

#: Verbs that interrupt something to make room.
_EVICTING = frozenset({"reclaim", "preempt", "consolidate"})
#: Verbs of which there is a map to look at.
ON_MAP = frozenset({*_EVICTING, "place", "resume"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a step. ``holds`` None: nothing that can hold or not."""

    text: Phrase
    about: str = ""
    holds: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A question, and what was found."""

    title: str
    lines: tuple[Line, ...]


def steps_of(row: DecisionRow) -> tuple[Step, ...]:
    """Return the steps of a decision in the order in which the scheduler took them; maybe none."""
    steps = [_entitled(row)]
    if row.verb in _EVICTING:
        steps += [_no_room(row), _chosen(row)]
    if row.places and row.verb in ON_MAP:
        kept = _("kept for it until it is free") if row.verb in _EVICTING else ""
        line = Line(text=(Span(text=row.places),), about=kept)
        steps.append(Step(title=_("Where does it run?"), lines=(line,)))
    return tuple(step for step in steps if step is not None and step.lines)


def as_text(row: DecisionRow, *, at: str) -> str:
    """Return the whole decision as plain lines, to be pasted into a mail."""
    lines = [
        _("Decision {n}, {verb}, {at}, cycle {cycle}").format(
            n=row.id, verb=row.verb_name, at=at, cycle=row.cycle
        ),
        plain(row.text),
    ]
    for number, step in enumerate(steps_of(row), start=1):
        lines.append(f"{number} {step.title}")
        for line in step.lines:
            verdict = "" if line.holds is None else f" [{_('yes') if line.holds else _('no')}]"
            about = f", {line.about}" if line.about else ""
            lines.append(f"  {plain(line.text)}{about}{verdict}")
    return "\n".join(lines)


def _entitled(row: DecisionRow) -> Step | None:
    titles = {
        "reclaim": _("Is it within the guarantee?"),
        "preempt": _("Is it within the limits?"),
    }
    title = titles.get(row.verb, _("What was compared?"))
    lines = [Line(text=(Span(text=check.text),), holds=check.holds) for check in row.checks]
    return Step(title=title, lines=tuple(lines))


def _no_room(row: DecisionRow) -> Step:
    freed_mgpu = sum(victim.freed_mgpu or 0 for victim in row.victims)
    if not row.shortfall_mgpu and not freed_mgpu:
        return Step(title="", lines=())
    text = phrase(
        _("{amount} more had to become free on {place}"),
        amount=format_gpu(row.shortfall_mgpu or freed_mgpu),
        place=row.places or _("a node"),
    )
    return Step(title=_("Is there a free place?"), lines=(Line(text=text, holds=False),))


def _chosen(row: DecisionRow) -> Step:
    titles = {
        "reclaim": _("Who borrows, and who of them goes?"),
        "preempt": _("Who of the project is below it in priority, and who of them goes?"),
    }
    lines = [
        Line(
            text=victim.name,
            about=_(", ").join(
                filter(
                    None,
                    [
                        "" if victim.freed_mgpu is None else format_gpu(victim.freed_mgpu),
                        victim.about,
                        _("chosen"),
                    ],
                )
            ),
        )
        for victim in row.victims
    ]
    if row.spared:
        lines.append(Line(text=row.spared, about=_("considered, and kept")))
    return Step(title=titles.get(row.verb, _("What is moved?")), lines=tuple(lines))
