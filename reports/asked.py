"""From words (an address, a command line, a saved report) to a request, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from reports.consumption import ReportRequest, Segment
from reports.periods import Bucket, Span, find_zone, make_span, parse_instant
from reports.refused import ReportRefused
from scheduler.core.vocabulary import Kind
from scheduler.queries.usage_facts import UsageFilter

Words = Mapping[str, Sequence[str]]
Choice = TypeVar("Choice", bound=StrEnum)


class Preset(StrEnum):
    """Periods with a name; all but CUSTOM move with the clock."""

    TODAY = "today"
    YESTERDAY = "yesterday"
    DAYS_7 = "7d"
    DAYS_30 = "30d"
    LAST_WEEK = "last_week"
    THIS_MONTH = "month"
    LAST_MONTH = "last_month"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request with the words that a form shows again."""

    request: ReportRequest
    preset: Preset
    compare: bool

    def words(self) -> dict[str, list[str]]:
        """Return the words that make this request again."""
        request, wanted = self.request, self.request.wanted
        found: dict[str, list[str]] = {"period": [self.preset.value]}
        if self.preset is Preset.CUSTOM:
            found["from"] = [_written(request.span.from_at)]
            found["to"] = [_written(request.span.to_at)]
        found["zone"] = [request.span.zone]
        found["by"] = [request.segment.value]
        found["step"] = [request.bucket.value]
        for name, values in (
            ("department", sorted(wanted.department_ids)),
            ("project", sorted(wanted.project_ids)),
            ("pool", sorted(wanted.pool_ids)),
            ("kind", sorted(wanted.kinds)),
            ("workload", sorted(wanted.workload_ids)),
            ("user", sorted(wanted.users)),
        ):
            if values:
                found[name] = [str(value) for value in values]
        if self.compare:
            found["compare"] = ["1"]
        return found

    def query(self, **changes: str) -> str:
        """Return the words as an address, with changes; an empty one takes a word away."""
        words = {**self.words(), **{name: [text] for name, text in changes.items()}}
        return urlencode({n: [v for v in vs if v] for n, vs in words.items()}, doseq=True)


def parse_asked(*, words: Words, zone: str, now: datetime) -> Asked:
    """Return what words ask for. ``zone`` is used where they name none.

    Raises:
        ReportRefused: a word that means nothing, or a period that can't be answered.
    """
    zone = _one(words, "zone") or zone
    find_zone(name=zone)
    preset = _preset(words)
    span = _span(words, preset, zone, now)
    request = ReportRequest(
        span=span,
        segment=_choice(words, "by", Segment, Segment.PROJECT),
        bucket=_choice(words, "step", Bucket, Bucket.WHOLE),
        wanted=UsageFilter(
            department_ids=_ids(words, "department"),
            project_ids=_ids(words, "project"),
            pool_ids=_ids(words, "pool"),
            kinds=frozenset(_kinds(words)),
            workload_ids=_ids(words, "workload"),
            users=frozenset(text for text in words.get("user", ()) if text),
        ),
    )
    return Asked(request=request, preset=preset, compare=_one(words, "compare") == "1")


def preset_span(*, preset: Preset, zone: str, now: datetime) -> Span:
    """Return the period of a preset as of now."""
    tz = find_zone(name=zone)
    today = now.astimezone(tz).date()
    first = today.replace(day=1)
    monday = today - timedelta(days=today.weekday())
    begin, end = {
        Preset.TODAY: (today, today + timedelta(days=1)),
        Preset.YESTERDAY: (today - timedelta(days=1), today),
        Preset.DAYS_7: (today - timedelta(days=6), today + timedelta(days=1)),
        Preset.DAYS_30: (today - timedelta(days=29), today + timedelta(days=1)),
        Preset.LAST_WEEK: (monday - timedelta(days=7), monday),
        Preset.THIS_MONTH: (first, (first + timedelta(days=32)).replace(day=1)),
        Preset.LAST_MONTH: ((first - timedelta(days=1)).replace(day=1), first),
    }[preset]
    return make_span(from_at=_midnight(begin, zone), to_at=_midnight(end, zone), zone=zone, now=now)


def _preset(words: Words) -> Preset:
    named = _choice(words, "period", Preset, Preset.DAYS_7)
    return Preset.CUSTOM if _one(words, "from") and not _one(words, "period") else named


def _span(words: Words, preset: Preset, zone: str, now: datetime) -> Span:
    if preset is not Preset.CUSTOM:
        return preset_span(preset=preset, zone=zone, now=now)
    begin, end = _one(words, "from"), _one(words, "to")
    if not begin or not end:
        raise ReportRefused(_("Give both the begin and the end of the period."))
    return make_span(
        from_at=parse_instant(text=begin, zone=zone),
        to_at=parse_instant(text=end, zone=zone),
        zone=zone,
        now=now,
    )


def _midnight(day: date, zone: str) -> datetime:
    return parse_instant(text=day.isoformat(), zone=zone).astimezone(UTC)


def _written(at: datetime) -> str:
    """Return a local time as a form writes it; with its offset where the clock shows it twice."""
    plain = at.replace(tzinfo=None)
    if at.replace(fold=0).utcoffset() != at.replace(fold=1).utcoffset():
        return at.isoformat()
    if (at.hour, at.minute, at.second, at.microsecond) == (0, 0, 0, 0):
        return plain.date().isoformat()
    return plain.isoformat(timespec="minutes" if not (at.second or at.microsecond) else "auto")


def _one(words: Words, name: str) -> str:
    values = words.get(name, ())
    return values[-1].strip() if values else ""


def _choice(words: Words, name: str, kind: type[Choice], default: Choice) -> Choice:
    text = _one(words, name)
    if not text:
        return default
    try:
        return kind(text)
    except ValueError as error:
        known = ", ".join(kind)
        raise ReportRefused(
            _("{word} is not known for {name}. Known are: {known}.").format(
                word=text, name=name, known=known
            )
        ) from error


def _kinds(words: Words) -> list[str]:
    found = [text for text in words.get("kind", ()) if text]
    for text in found:
        _choice({"kind": [text]}, "kind", Kind, Kind.TRAINING)
    return found


def _ids(words: Words, name: str) -> frozenset[int]:
    texts = [text for text in words.get(name, ()) if text]
    for text in texts:
        if not (text.isascii() and text.isdigit() and len(text) < 18):
            raise ReportRefused(_("{word} is no number of a {name}.").format(word=text, name=name))
    return frozenset(int(text) for text in texts)
