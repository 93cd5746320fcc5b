"""Filters of the Inference pages: thousandths, milliseconds, millionths of the currency."""

from __future__ import annotations

from decimal import Decimal

from django import template

register = template.Library()


@register.filter
def milli(value: int | None) -> str:
    """Return thousandths as a number with at most two places: 1400 is "1.4"."""
    if value is None:
        return "–"
    return f"{Decimal(value) / 1000:.2f}".rstrip("0").rstrip(".")


@register.filter
def millis(value: int | None) -> str:
    """Return milliseconds, from a second on in seconds with one place."""
    if value is None:
        return "–"
    return f"{value} ms" if value < 1000 else f"{Decimal(value) / 1000:.1f} s"


@register.filter
def micro(value: int | None) -> str:
    """Return millionths of the currency with four places below one, else with two."""
    amount = Decimal(value or 0) / 1_000_000
    return f"{amount:.2f}" if amount >= 1 or not amount else f"{amount:.4f}"
