"""What fixed partitions waste against a shared pool: an account that anyone can follow and change.

A server is bought and run for some years. Fixed partitions give one share of it to inference, which is
used for some hours of some days, and the rest to training. What inference does not use is lost; in a
shared pool training has it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from fractions import Fraction

from django.utils.translation import gettext as _

from reports.asked import Preset, Words, preset_span
from reports.consumption import ReportRequest, Segment, make_report
from reports.refused import ReportRefused
from scheduler.core.usage import Figures
from scheduler.core.vocabulary import Kind
from scheduler.queries.usage_facts import UsageFilter
from scheduler.queries.visibility import Visibility

DAYS_A_YEAR = 365
MOST = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """All that the account rests on; each can be changed. The defaults are the article's example."""

    hardware: int = 20_000_000
    running_a_month: int = 100_000
    years: int = 5
    #: Of the whole, in percent: what fixed partitions give to inference.
    inference_percent: int = 50
    #: What inference needs by day, in percent of the whole.
    needed_percent: int = 50
    hours_a_day: int = 8
    days_a_week: int = 7
    #: Working days a year on which nobody asks.
    holidays: int = 0


#: Least and most of each assumption.
BOUNDS = {
    "hardware": (0, MOST),
    "running_a_month": (0, MOST),
    "years": (1, 30),
    "inference_percent": (0, 100),
    "needed_percent": (0, 100),
    "hours_a_day": (0, 24),
    "days_a_week": (0, 7),
    "holidays": (0, 365),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What follows, as exact fractions of the currency or of the whole."""

    assumptions: Assumptions
    total: Fraction
    #: Of the time, how much the inference partition idles.
    idle: Fraction
    wasted: Fraction
    wasted_a_month: Fraction
    wasted_share: Fraction
    #: Of what inference needs by day, how much its partition can't serve.
    unserved: Fraction
    #: How many times as long trainings take as in a shared pool; None: they never end.
    training_factor: Fraction | None

    @property
    def more_than_running(self) -> bool:
        """Test whether a month's waste is more than a month's running cost."""
        return self.wasted_a_month > self.assumptions.running_a_month


def account(*, of: Assumptions) -> Account:
    """Return what the assumptions lead to."""
    months = 12 * of.years
    total = Fraction(of.hardware + of.running_a_month * months)
    used = _used_part(of)
    share, needed = Fraction(of.inference_percent, 100), Fraction(of.needed_percent, 100)
    # What the partition holds beyond the need by day idles by day too.
    served = min(share, needed)
    wasted = total * (share - served * used)
    pooled = 1 - served * used
    return Account(
        assumptions=of,
        total=total,
        idle=1 - (served * used / share if share else used),
        wasted=wasted,
        wasted_a_month=wasted / months,
        wasted_share=wasted / total if total else Fraction(0),
        unserved=(needed - served) / needed if needed else Fraction(0),
        training_factor=pooled / (1 - share) if share < 1 else None,
    )


def splits(*, of: Assumptions) -> list[Account]:
    """Return the account for every split in steps of ten percent: each of the two mistakes grows."""
    return [account(of=replace(of, inference_percent=percent)) for percent in range(0, 101, 10)]


def _used_part(of: Assumptions) -> Fraction:
    """Return in which part of a year's hours inference is used."""
    days = Fraction(DAYS_A_YEAR * of.days_a_week, 7) - of.holidays
    return max(Fraction(0), days * of.hours_a_day / (DAYS_A_YEAR * 24))


def parse_assumptions(*, words: Words) -> Assumptions:
    """Return the assumptions that words give, defaults for the rest.

    Raises:
        ReportRefused: one is no whole number or out of bounds.
    """
    given: dict[str, int] = {}
    for field in fields(Assumptions):
        text = (words.get(field.name) or [""])[-1].strip().replace(",", "")
        if not text:
            continue
        least, most = BOUNDS[field.name]
        if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
            raise ReportRefused(
                _("{text} is not possible. Give a whole number from {least} to {most}.").format(
                    text=text, least=f"{least:,}", most=f"{most:,}"
                )
            )
        given[field.name] = int(text)
    return Assumptions(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class FromLedger:
    """What inference did in the last 30 days, as far as the caller sees it."""

    inference: Figures
    everything: Figures

    @property
    def idle(self) -> Fraction | None:
        """Which part of what inference held was idle; None where it held nothing."""
        held = self.inference.allocated
        return Fraction(self.inference.idle, held) if held else None

    @property
    def share(self) -> Fraction | None:
        """Which part of all that was held inference held."""
        held = self.everything.allocated
        return Fraction(self.inference.allocated, held) if held else None

    def wasted_a_month(self, *, total_a_month: Fraction) -> Fraction:
        """Return what a fixed partition of inference's share wastes of a month's cost while it idles."""
        return total_a_month * (self.share or 0) * (self.idle or 0)

    def words(self, *, of: Assumptions) -> dict[str, int]:
        """Return the assumptions with what the ledger says in place of what was assumed.

        In whole percent and hours: the use of 30 days, weekends among them, as hours of every day.
        """
        percent = round(100 * (self.share or 0))
        return {
            **{field.name: getattr(of, field.name) for field in fields(of)},
            "inference_percent": percent,
            "needed_percent": percent,
            "hours_a_day": round(24 * (1 - (self.idle or 0))),
            "days_a_week": 7,
            "holidays": 0,
        }


def read_ledger(*, visible: Visibility, zone: str, now: datetime) -> FromLedger:
    """Return the ledger's side of the account."""
    span = preset_span(preset=Preset.DAYS_30, zone=zone, now=now)
    whole = ReportRequest(span=span, segment=Segment.CLUSTER)
    part = replace(whole, wanted=UsageFilter(kinds=frozenset({Kind.INFERENCE.value})))
    everything = make_report(visible=visible, request=whole, now=now)
    inference = make_report(visible=visible, request=part, now=now)
    return FromLedger(inference=inference.total.figures, everything=everything.total.figures)
