"""The demonstration's day: started and stopped by people, told of by the process that carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from scheduler import events, models
from scheduler.operations import audit
from scheduler.operations.authority import SYSTEM, Action, Authority, NotPermitted
from scheduler.operations.refused import Problem, StateRefused
from scheduler.queries.demo_days import has_services

SHORTEST_S, USUAL_S, LONGEST_S = 60, 600, 86_400
#: In the environment of the work that a day hands in: by it the work is found again.
MARK = "DEMO_DAY"
#: The name of the keys that a day's callers use.
KEY_NAME = "demo day"
#: A process that was begun has this long to take the day.
SPAWN_AGAIN_AFTER = timedelta(seconds=45)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a day has come."""

    days: int
    minute: int
    requests: int
    errors: int
    trouble: str = ""


@transaction.atomic
def start(*, day_s: int, url: str, authority: Authority, now: datetime) -> models.DemoDay:
    """Ask for the day; a process takes it up within seconds and goes on until it is stopped.

    Raises:
        NotPermitted: only system admins may.
        StateRefused: it is under way, it can't be so short or long, or no service has a range.
    """
    _require(authority)
    row = _locked()
    if row.wanted:
        raise _refused("demo_day_running", "The day is under way already. Stop it first.")
    if not SHORTEST_S <= day_s <= LONGEST_S:
        raise StateRefused(
            [
                Problem(
                    field="demo_day",
                    code="out_of_range",
                    message=f"Use {SHORTEST_S} to {LONGEST_S} seconds for a day.",
                    params={"low": SHORTEST_S, "high": LONGEST_S},
                )
            ]
        )
    if not has_services():
        raise _refused(
            "no_ranged_service",
            "No service here may have more replicas than it must. Lay out a demonstration, or give a "
            "service a range.",
        )
    row.wanted, row.started_by, row.started_at = True, authority.name, now
    row.day_s, row.url, row.spawned_at = day_s, url[:200], None
    row.said_at, row.days, row.minute = None, 0, 0
    row.requests, row.errors, row.trouble = 0, 0, ""
    row.save()
    audit.record(
        authority=authority, now=now, action="demo_day.start", target=row, after={"day_s": day_s}
    )
    transaction.on_commit(events.wake_demo_day)
    return row


@transaction.atomic
def stop(*, authority: Authority, now: datetime) -> models.DemoDay:
    """End the day: its callers hang up, its keys are revoked, its trainings go.

    Raises:
        NotPermitted: only system admins may.
        StateRefused: it is not under way.
    """
    _require(authority)
    row = _locked()
    if not row.wanted:
        raise _refused("demo_day_not_running", "The day is not under way.")
    row.wanted = False
    row.save(update_fields=["wanted"])
    audit.record(
        authority=authority,
        now=now,
        action="demo_day.stop",
        target=row,
        after={"days": row.days, "requests": row.requests, "errors": row.errors},
    )
    transaction.on_commit(events.wake_demo_day)
    return row


def find() -> models.DemoDay:
    """Return the row as it is."""
    return models.DemoDay.objects.get_or_create(pk=1)[0]


def claim_spawn(*, now: datetime) -> bool:
    """Say that a process is begun for the day; of several that say so at once one may."""
    free = Q(spawned_at=None) | Q(spawned_at__lt=now - SPAWN_AGAIN_AFTER)
    return bool(models.DemoDay.objects.filter(free, pk=1, wanted=True).update(spawned_at=now))


def say(*, progress: Progress, now: datetime) -> bool:
    """Write how far it has come; returns whether it is still wanted."""
    models.DemoDay.objects.filter(pk=1).update(
        said_at=now,
        days=progress.days,
        minute=progress.minute,
        requests=progress.requests,
        errors=progress.errors,
        trouble=progress.trouble[:300],
    )
    return models.DemoDay.objects.filter(pk=1, wanted=True).exists()


def find_left_work() -> list[models.Workload]:
    """Return the trainings of a day that are still in view."""
    return list(
        models.Workload.objects.filter(
            deleted_at__isnull=True, submitted_by=SYSTEM.name, env__has_key=MARK
        ).order_by("id")
    )


def find_left_keys() -> list[models.GatewayKey]:
    """Return the keys of a day that are still good."""
    return list(
        models.GatewayKey.objects.filter(
            name=KEY_NAME, created_by=SYSTEM.name, revoked_at__isnull=True
        ).order_by("id")
    )


def _locked() -> models.DemoDay:
    models.DemoDay.objects.get_or_create(pk=1)
    return models.DemoDay.objects.select_for_update().get(pk=1)


def _require(authority: Authority) -> None:
    if not authority.may(Action.NODES):
        raise NotPermitted(
            "Only system admins may start or stop the demonstration's day.",
            code="demo_day_is_for_admins",
        )


def _refused(code: str, message: str) -> StateRefused:
    return StateRefused([Problem(field="demo_day", code=code, message=message)])
