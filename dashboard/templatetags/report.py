"""How a report's times, names and links look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from django import template
from django.utils.translation import gettext as _

from reports import numbers, periods
from reports.asked import Asked
from reports.consumption import Row, Segment, label
from reports.periods import Span
from reports.promise import shown_wait
from scheduler.core.instants import from_us
from scheduler.queries.queues import QueueRow
from scheduler.queries.usage_names import UnitName

register = template.Library()


@register.filter
def item(values: Mapping[str, str], name: str) -> str:
    """Return the text of a column."""
    return values[name]


@register.filter
def item_or_none(values: Mapping[str, str], name: str) -> str:
    """Return the text of a column, empty where it has none."""
    return values.get(name, "")


@register.filter
def unit_key(row: QueueRow) -> str:
    """Return what names a unit in ``read_slugs``."""
    return f"{'department' if row.is_department else 'project'}-{row.id}"


@register.filter
def slug_of(slugs: Mapping[str, str], key: str) -> str:
    """Return a unit's address."""
    return slugs[key]


@register.filter
def moment(at: datetime) -> str:
    """Return a local time as it stands, seconds only where there are any."""
    return periods.moment(at)


@register.filter
def told_in(at: datetime, zone: str) -> str:
    """Return an instant as a zone's clock shows it."""
    return periods.told_in(at, zone)


@register.filter
def localmoment(at: datetime, span: Span) -> str:
    """Return an instant in the report's zone."""
    return f"{at.astimezone(span.tz):%Y-%m-%d %H:%M:%S}"


@register.filter
def local_us(at_us: int, span: Span) -> str:
    """Return microseconds as time in the report's zone."""
    return f"{from_us(at_us).astimezone(span.tz):%Y-%m-%d %H:%M:%S}"


@register.filter
def typed(at: datetime) -> str:
    """Return a local time as one types it."""
    return f"{at:%Y-%m-%d}" if not (at.hour or at.minute) else f"{at:%Y-%m-%dT%H:%M}"


@register.filter
def gpu_hours(amount: int) -> str:
    """Return exact hours with three places."""
    return numbers.gpu_hours(amount)


@register.filter
def wait(waited_us: int | None) -> str:
    """Return how long something waited; unknown is a dash."""
    return shown_wait(waited_us)


@register.filter
def unit_label(found: UnitName) -> str:
    """Return a unit's name, with the day of its deletion and what it was called before."""
    name = label(found, found.id)
    return f"{name} ({formerly([one.name for one in found.former])})" if found.former else name


@register.filter
def formerly(names: Sequence[str]) -> str:
    """Return "formerly a, b"."""
    told = _(", ").join(dict.fromkeys(names))
    return _("formerly {names}").format(names=told)


@register.filter
def weekday(day: int) -> str:
    """Return a weekday's short name; 0 is Monday."""
    return (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))[day]


#: The word of an address that narrows a report down to one unit.
_WORDS = {
    Segment.DEPARTMENT: "department",
    Segment.PROJECT: "project",
    Segment.POOL: "pool",
    Segment.WORKLOAD: "workload",
    Segment.USER: "user",
}


@register.filter
def narrowed(asked: Asked, row: Row) -> str:
    """Return the address of what one row sums."""
    segment = asked.request.segment
    changes = {_WORDS[segment]: row.unit.id} if segment in _WORDS else {}
    if segment is Segment.PROJECT and row.unit.department_id:
        changes["department"] = str(row.unit.department_id)
    return asked.query(**changes)


@register.filter
def budget(amount: Decimal) -> str:
    """Return an amount of money, thousands parted; its places only where there are any."""
    return f"{amount:,.0f}" if amount == amount.to_integral_value() else f"{amount:,.2f}"


@register.filter
def exact_hours(amount: int | str) -> str:
    """Return exact GPU hours as pages print them."""
    return numbers.shown_hours(int(amount))


@register.filter
def exact_money(amount: int | str) -> str:
    """Return an exact cost as pages print it; a negative one has its sign."""
    return numbers.shown_money(int(amount))


@register.filter
def whole(amount: Fraction | int) -> str:
    """Return an amount of money as a whole number, thousands parted."""
    return f"{round(amount):,}"


@register.filter
def share(part: Fraction | None) -> str:
    """Return a part of the whole in percent."""
    return "–" if part is None else f"{round(100 * part)}%"


@register.filter
def times(factor: Fraction) -> str:
    """Return a factor with two places."""
    return numbers.decimal_text(amount=factor.numerator, unit=factor.denominator, places=2)
