"""Sentences for people, kept as spans so that a page can weigh and link names without markup in text.

A template is a translated sentence with named places ("{workload} waits for {gpu} GPU."). The names
put in stay apart from the words around them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from string import Formatter

from django.utils.translation import gettext as _


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a sentence. ``strong``: a name or a figure; ``workload_id``: what it links to."""

    text: str
    strong: bool = False
    workload_id: int | None = None


Phrase = tuple[Span, ...]


def strong(text: object, *, workload_id: int | None = None) -> Span:
    """Return ``text`` as a name or figure that stands out."""
    return Span(text=str(text), strong=True, workload_id=workload_id)


def phrase(template: str, **places: object) -> Phrase:
    """Fill ``template``; values may be plain objects, spans or phrases.

    Raises:
        KeyError: the template (or its translation) names a place that is not given.
    """
    spans: list[Span] = []
    for literal, field, _spec, _conversion in Formatter().parse(template):
        if literal:
            spans.append(Span(text=literal))
        if field:
            spans.extend(_as_spans(places[field]))
    return tuple(spans)


def duration(seconds: int) -> str:
    """Return "12 s", "41 min", "3 h 12 min" or "9 d"."""
    if seconds < 60:
        return _("{n} s").format(n=seconds)
    minutes = seconds // 60
    if minutes < 60:
        return _("{n} min").format(n=minutes)
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return _("{h} h {n} min").format(h=hours, n=minutes)
    return _("{n} d").format(n=hours // 24)


def join(phrases: Iterable[Phrase], *, separator: str = " ") -> Phrase:
    """Return the phrases that are not empty, one after the other."""
    spans: list[Span] = []
    for part in phrases:
        if not part:
            continue
        if spans and separator:
            spans.append(Span(text=separator))
        spans.extend(part)
    return tuple(spans)


def plain(spans: Phrase) -> str:
    """Return the sentence as text."""
    return "".join(span.text for span in spans)


def _as_spans(value: object) -> Iterable[Span]:
    if isinstance(value, Span):
        return (value,)
    if isinstance(value, tuple):
        return value
    return (Span(text=str(value)),)
