"""Instants: aware UTC datetimes outside, integer microseconds in the core and the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

#: Beyond these years a date has no instant in some zone: what people type is held against them.
FIRST_YEAR, LAST_YEAR = 1970, 9000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_us(at: datetime) -> int:
    """Return microseconds since 1970, exactly."""
    return (at - _EPOCH) // _MICROSECOND


def from_us(at_us: int) -> datetime:
    """Return the aware UTC datetime of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=at_us)


def optional_us(at: datetime | None) -> int | None:
    """Return microseconds, or None for None."""
    return None if at is None else to_us(at)
