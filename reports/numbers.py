"""Exact integrals as decimal text, rounded once. Halves go up."""

from __future__ import annotations

from scheduler.core.usage import CURRENCY, GIB_HOUR, GPU_HOUR

HOUR_PLACES = 3
MONEY_PLACES = 2


def decimal_text(*, amount: int, unit: int, places: int) -> str:
    """Return ``amount / unit`` with so many places, never as "-0"."""
    scale = 10**places
    rounded = (2 * abs(amount) * scale + unit) // (2 * unit)
    sign = "-" if amount < 0 and rounded else ""
    whole, rest = divmod(rounded, scale)
    return f"{sign}{whole}.{rest:0{places}d}" if places else f"{sign}{whole}"


def gpu_hours(amount: int) -> str:
    """Return milli-GPU-microseconds as hours of one GPU, three places."""
    return decimal_text(amount=amount, unit=GPU_HOUR, places=HOUR_PLACES)


def core_hours(amount: int) -> str:
    """Return milli-core-microseconds as hours of one core, three places."""
    return decimal_text(amount=amount, unit=GPU_HOUR, places=HOUR_PLACES)


def gib_hours(amount: int) -> str:
    """Return MiB-microseconds as GiB-hours, three places."""
    return decimal_text(amount=amount, unit=GIB_HOUR, places=HOUR_PLACES)


def money(amount: int) -> str:
    """Return a cost in the currency, two places."""
    return decimal_text(amount=amount, unit=CURRENCY, places=MONEY_PLACES)


def percent(*, part: int, whole: int, places: int = 1) -> str:
    """Return ``part`` of ``whole`` in percent; empty where there is no whole."""
    if whole == 0:
        return ""
    return decimal_text(amount=100 * part, unit=whole, places=places)


def shown_hours(amount: int, *, unit: int = GPU_HOUR) -> str:
    """Return hours as pages print them: one place from 100 up, else two, thousands parted."""
    places = 1 if abs(amount) >= 100 * unit else 2
    return _parted(decimal_text(amount=amount, unit=unit, places=places))


def shown_money(amount: int) -> str:
    """Return a cost as pages print it: whole from 100 up, else two places."""
    places = 0 if abs(amount) >= 100 * CURRENCY else 2
    return _parted(decimal_text(amount=amount, unit=CURRENCY, places=places))


def shown_percent(*, part: int, whole: int) -> str:
    """Return a share as pages print it: whole percent, one place under 1."""
    if whole == 0:
        return "–"
    small = 0 < 100 * abs(part) < whole
    return percent(part=part, whole=whole, places=1 if small else 0) + "%"


def _parted(text: str) -> str:
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, dot, rest = digits.partition(".")
    return f"{sign}{int(whole):,}{dot}{rest}"
