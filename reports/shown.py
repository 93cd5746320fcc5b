"""A report as its page shows it: texts for tiles and cells, numbers for charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from reports import numbers
from reports.consumption import Report, Row
from scheduler.core.usage import GIB_HOUR, GPU_HOUR, Figures

UNTOLD = "–"
#: Rows by step that a page shows; the CSV has all.
MAX_SHOWN = 500
#: Units that a page shows, the largest; the total counts all.
MAX_UNITS = 200
MAX_CHARTED = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One key figure."""

    name: str
    label: str
    text: str
    about: str
    #: Against the period before, empty where nothing is compared.
    change: str = ""
    mark: str = ""
    #: What stands behind it: a word of the drill's address.
    behind: str = "intervals"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """One line of the table."""

    key: str
    row: Row
    #: Texts by the name of their column.
    cells: dict[str, str]
    change: str = ""
    #: The same hours to six places, for who looks closer.
    exact: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One column of the table."""

    name: str
    label: str
    hint: str

    @property
    def behind(self) -> str:
        """What stands behind its figures: a word of the drill's address."""
        return _BEHIND.get(self.name, "intervals")


_BEHIND = {
    "deserved": "guarantee",
    "unused": "guarantee",
    "idle": "activity",
    "idle_share": "activity",
    "unknown": "activity",
    "idle_cost": "activity",
}


def heads(report: Report) -> tuple[Head, ...]:
    """Return the columns of the table in order, without one that no row tells."""
    currency = report.cluster.currency
    told = any(row.beyond is not None for row in report.units)
    found = (
        Head(name="allocated", label=_("Allocation h"), hint=_("Held, whether used or not")),
        Head(name="deserved", label=_("Guarantee h"), hint=_("Guaranteed, whether used or not")),
        Head(name="over_quota", label=_("Over quota h"), hint=_("Held above the guarantee")),
        Head(
            name="beyond",
            label=_("From departments h"),
            hint=_("Held beyond the department's own guarantee: what siblings did not lend"),
        ),
        Head(name="unused", label=_("Unused guarantee h"), hint=_("Guaranteed and not held")),
        Head(name="idle", label=_("Idle h"), hint=_("Held by work that did not compute")),
        Head(name="idle_share", label=_("Idle %"), hint=_("Idle hours of allocation hours")),
        Head(
            name="unknown",
            label=_("Unknown h"),
            hint=_("Held, but no sample said whether it was used. Not counted as idle"),
        ),
        Head(name="cpu", label=_("CPU core h"), hint=_("CPU cores held")),
        Head(name="memory", label=_("Memory GiB h"), hint=_("Memory held")),
        Head(
            name="cost",
            label=_("Cost {currency}").format(currency=currency),
            hint=_("Allocation hours at the price in force"),
        ),
        Head(
            name="idle_cost",
            label=_("Idle cost {currency}").format(currency=currency),
            hint=_("Idle hours at the price in force"),
        ),
    )
    return tuple(head for head in found if told or head.name != "beyond")


def cells(row: Row) -> dict[str, str]:
    """Return the texts of a row by the names of their columns."""
    figures = row.figures
    told = row.guaranteed
    return {
        "allocated": numbers.shown_hours(figures.allocated),
        "deserved": numbers.shown_hours(figures.deserved) if told else UNTOLD,
        "over_quota": numbers.shown_hours(figures.over_quota) if told else UNTOLD,
        "beyond": UNTOLD if row.beyond is None else numbers.shown_hours(row.beyond),
        "unused": numbers.shown_hours(figures.unused) if told else UNTOLD,
        "idle": numbers.shown_hours(figures.idle),
        "idle_share": numbers.shown_percent(part=figures.idle, whole=figures.allocated),
        "unknown": numbers.shown_hours(figures.unknown),
        "cpu": numbers.shown_hours(figures.cpu),
        "memory": numbers.shown_hours(figures.memory, unit=GIB_HOUR),
        "cost": numbers.shown_money(figures.cost),
        "idle_cost": numbers.shown_money(figures.idle_cost),
    }


def exact(row: Row) -> dict[str, str]:
    """Return the hours of a row to six places by the names of their columns."""
    figures = row.figures
    names = ["allocated", "idle", "unknown"]
    if row.guaranteed:
        names += ["deserved", "over_quota", "unused"]
    found = {name: _six_places(getattr(figures, name)) for name in names}
    if row.beyond is not None:
        found["beyond"] = _six_places(row.beyond)
    return found


def _six_places(amount: int) -> str:
    return f"{numbers.decimal_text(amount=amount, unit=GPU_HOUR, places=6)} h"


def key_of(row: Row) -> str:
    """Return what tells a unit's row from others: a project has one for each department."""
    return f"{row.unit.id}-{row.unit.department_id}"


def unit_rows(*, report: Report, previous: Report | None) -> tuple[ShownRow, ...]:
    """Return each unit over the whole period, the largest first."""
    before = {key_of(row): row.figures for row in previous.units} if previous else {}
    ordered = sorted(report.units, key=lambda row: (-row.figures.allocated, row.unit.name))
    return tuple(
        ShownRow(
            key=key_of(row),
            row=row,
            cells=cells(row),
            change=change(row.figures, before.get(key_of(row))) if previous else "",
            exact=exact(row),
        )
        for row in ordered[:MAX_UNITS]
    )


def step_rows(*, report: Report) -> tuple[ShownRow, ...]:
    """Return the first rows by step."""
    return tuple(
        ShownRow(key=f"{key_of(row)}-{row.slot.from_us}", row=row, cells=cells(row))
        for row in report.rows[:MAX_SHOWN]
    )


def change(now: Figures, before: Figures | None) -> str:
    """Return how allocation changed: "▲ 3.20 h (+12%) more"."""
    earlier = before.allocated if before else 0
    return _change(now.allocated, earlier)


def _change(now: int, earlier: int) -> str:
    difference = now - earlier
    if difference == 0:
        return _("= the same")
    amount = numbers.shown_hours(abs(difference))
    share = numbers.shown_percent(part=abs(difference), whole=earlier) if earlier else _("new")
    if difference > 0:
        return _("▲ {amount} h more ({share})").format(amount=amount, share=share)
    return _("▼ {amount} h less ({share})").format(amount=amount, share=share)


def tiles(*, report: Report, previous: Report | None) -> tuple[Tile, ...]:
    """Return the key figures of the whole report."""
    before = previous.total.figures if previous else None
    return (*_of_guarantee(report, before), *_of_use(report, before))


def _of_guarantee(report: Report, before: Figures | None) -> tuple[Tile, ...]:
    """Return what was held against what was guaranteed."""
    row, texts = report.total, cells(report.total)
    hours = _("{n} h")
    length_us = report.request.span.to_us - report.request.span.from_us
    mean = numbers.decimal_text(amount=row.figures.allocated, unit=1000 * length_us, places=2)
    return (
        Tile(
            name="allocated",
            label=_("Allocation"),
            text=hours.format(n=texts["allocated"]),
            about=_("{n} GPUs on average").format(n=mean),
            change=_against("allocated", row.figures, before),
            mark="used",
        ),
        Tile(
            name="deserved",
            behind=_BEHIND["deserved"],
            label=_("Guarantee"),
            text=hours.format(n=texts["deserved"]),
            about=_("{n} h of it unused").format(n=texts["unused"]),
            change=_against("deserved", row.figures, before) if row.guaranteed else "",
            mark="free",
        ),
        Tile(
            name="over_quota",
            label=_("Over quota"),
            text=hours.format(n=texts["over_quota"]),
            about=_of_allocation(row.figures.over_quota, row.figures) if row.guaranteed else "",
            change=_against("over_quota", row.figures, before) if row.guaranteed else "",
            mark="over",
        ),
    )


def _of_use(report: Report, before: Figures | None) -> tuple[Tile, ...]:
    """Return what of it was idle or unknown, and what it cost."""
    figures, texts = report.total.figures, cells(report.total)
    hours, currency = _("{n} h"), report.cluster.currency
    return (
        Tile(
            name="idle",
            behind=_BEHIND["idle"],
            label=_("Idle"),
            text=hours.format(n=texts["idle"]),
            about=_of_allocation(figures.idle, figures),
            change=_against("idle", figures, before),
            mark="idle",
        ),
        Tile(
            name="unknown",
            behind=_BEHIND["unknown"],
            label=_("Unknown"),
            text=hours.format(n=texts["unknown"]),
            about=_("no sample; not counted as idle"),
        ),
        Tile(
            name="cost",
            label=_("Cost"),
            text=f"{currency}{texts['cost']}",
            about=_("{amount} of it idle").format(amount=f"{currency}{texts['idle_cost']}"),
        ),
    )


def _against(name: str, figures: Figures, before: Figures | None) -> str:
    return _change(getattr(figures, name), getattr(before, name)) if before else ""


def _of_allocation(part: int, figures: Figures) -> str:
    share = numbers.shown_percent(part=part, whole=figures.allocated)
    return _("{share} of allocation").format(share=share)


def chart(*, report: Report) -> dict[str, object]:
    """Return numbers for the charts: hours by unit, and by step where the period is divided."""
    rows = sorted(report.units, key=lambda row: -row.figures.allocated)[:MAX_CHARTED]
    found: dict[str, object] = {
        "units": [
            {
                "key": key_of(row),
                "name": row.unit.name,
                "color": row.unit.color,
                **_hours(row.figures, row),
            }
            for row in rows
        ],
        "guaranteed": report.total.guaranteed,
    }
    if len(report.slots) > 1:
        found["steps"] = _by_step(report)
    return found


def _by_step(report: Report) -> dict[str, Sequence[object]]:
    sums: dict[int, list[int]] = {slot.from_us: [0, 0, 0, 0] for slot in report.slots}
    for row in report.rows:
        column = sums[row.slot.from_us]
        figures = row.figures
        for at, value in enumerate(
            (figures.allocated, figures.over_quota, figures.idle, figures.deserved)
        ):
            column[at] += value
    columns = list(zip(*sums.values(), strict=True))
    names = ("allocated", "over_quota", "idle", "deserved")
    return {
        "labels": [slot.label for slot in report.slots],
        **{
            name: [_number(value) for value in values]
            for name, values in zip(names, columns, strict=True)
        },
    }


def _hours(figures: Figures, row: Row) -> dict[str, object]:
    return {
        "allocated": _number(figures.allocated),
        "deserved": _number(figures.deserved) if row.guaranteed else None,
        "over_quota": _number(figures.over_quota) if row.guaranteed else 0,
        "idle": _number(figures.idle),
    }


def _number(amount: int) -> float:
    """Return hours for drawing; what is written beside the drawing comes from the exact figure."""
    return round(amount / GPU_HOUR, 4)
