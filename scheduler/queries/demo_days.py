"""The demonstration's day as the Overview shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, QuerySet

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, Kind

#: A process that has said nothing for so long is not at work.
SILENT_AFTER = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRow:
    """Where the day stands."""

    #: Somebody has asked for it and nobody has stopped it.
    wanted: bool
    #: Its process has spoken lately.
    at_work: bool
    days: int
    minute: int
    requests: int
    errors: int
    day_s: int
    started_by: str
    started_at: datetime | None
    #: The product does not answer its callers.
    troubled: bool

    @property
    def clock(self) -> str:
        """Return the time of its day, such as "14:05"."""
        return f"{self.minute // 60:02}:{self.minute % 60:02}"

    @property
    def number(self) -> int:
        """Return which day it is, from 1."""
        return self.days + 1

    @property
    def minutes(self) -> int:
        """Return how many minutes a day takes."""
        return self.day_s // 60


def read_day(*, now: datetime) -> DayRow | None:
    """Return where the day stands, or None where there is no service that could follow a load."""
    row = models.DemoDay.objects.filter(pk=1).first() or models.DemoDay()
    if not row.wanted and not has_services():
        return None
    return DayRow(
        wanted=row.wanted,
        at_work=row.said_at is not None and now - row.said_at < SILENT_AFTER,
        days=row.days,
        minute=row.minute,
        requests=row.requests,
        errors=row.errors,
        day_s=row.day_s,
        started_by=row.started_by,
        started_at=row.started_at,
        troubled=bool(row.trouble),
    )


def find_services() -> list[models.Workload]:
    """Return the services that follow their load, by id."""
    return list(_services().select_related("project", "service").order_by("id"))


def has_services() -> bool:
    """Test whether there is a service that follows its load."""
    return _services().exists()


def _services() -> QuerySet[models.Workload]:
    return models.Workload.objects.filter(
        kind=Kind.INFERENCE,
        deleted_at__isnull=True,
        stop_requested=False,
        pool__scratch=False,
        service__isnull=False,
        max_replicas__gt=F("min_replicas"),
    ).exclude(phase__in=END_PHASES)
