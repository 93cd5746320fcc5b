"""What people do with scheduled changes of quotas: save one, edit it, cancel it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from django.db import transaction

from scheduler import events, models
from scheduler.core import calendar
from scheduler.core.calendar import DAY_MINUTES, Weekly
from scheduler.core.instants import to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.operations import audit, quota_rules, quota_switches, quotas
from scheduler.operations.authority import SYSTEM, Authority, NotPermitted
from scheduler.operations.quotas import QuotaEdit
from scheduler.operations.refused import NotFound, Problem, QuotaRefused
from scheduler.queries.quota_schedules import key_of, weekly_of
from scheduler.queries.quota_tree import FIELDS, Key, QuotaTree

NAME_LENGTH = 60
MOST_HOLIDAYS = 400
Status = models.QuotaSchedule.Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When: for good at an instant, or while a window of each week holds."""

    at: datetime | None = None
    weekly: Weekly | None = None


def save_schedule(
    *,
    pool_id: int,
    name: str,
    timing: Timing,
    edits: Sequence[QuotaEdit],
    authority: Authority,
    now: datetime,
    reason: str = "",
    schedule_id: int | None = None,
) -> models.QuotaSchedule:
    """Save a draft that takes effect later, or edit one. A window that holds now opens at once.

    An open schedule that is edited first goes back to what was before it. A refused attempt is in the
    audit log.

    Raises:
        NotFound, NotPermitted: as ``quotas.set_quotas``, for all rows, those before the edit too.
        QuotaRefused: a name, a time or values that can't be, or another schedule sets one of the rows
            at the same time; both are named.
    """
    try:
        return _save(pool_id, name, timing, edits, authority, now, reason, schedule_id)
    except QuotaRefused as refused:
        action = "quota_schedule.create" if schedule_id is None else "quota_schedule.change"
        quotas.record_refusal(
            edits, authority=authority, now=now, action=action, reason=reason, refused=refused
        )
        raise


def _save(
    pool_id: int,
    name: str,
    timing: Timing,
    edits: Sequence[QuotaEdit],
    authority: Authority,
    now: datetime,
    reason: str,
    schedule_id: int | None,
) -> models.QuotaSchedule:
    with transaction.atomic():
        cluster = models.Cluster.objects.locked()
        pool = quotas.find_pool(pool_id)
        old = None if schedule_id is None else find_schedule(schedule_id, pool_id, authority)
        if old is not None:
            _take_back(old, now)
        on_the_way = old is not None and old.rows.exclude(aim={}).exists()
        tree = quotas.read_whole_tree(pool)
        for edit in edits:
            quotas.find_unit(edit.key, authority)
        cells = _cells_of(tree, edits)
        made = models.QuotaSchedule(
            pk=old.pk if old and not on_the_way else None,
            pool=pool,
            name=name.strip(),
            reason=reason.strip()[:400],
            created_by=authority.name,
            created_at=old.created_at if old else now,
            **_columns(timing),
        )
        wanted = {edit.key: edit.values for edit in edits if edit.key in cells}
        others = _overlapping(made, old, cells, ZoneInfo(cluster.time_zone), tree)
        problems = [
            *_own_problems(made, old, timing, cells, now),
            *_value_problems(tree, wanted),
            *others,
        ]
        if problems:
            raise QuotaRefused(problems)
        if old is not None and on_the_way:  # its way back goes on beside the new one
            models.QuotaSchedule.objects.filter(pk=old.pk).update(status=Status.DONE)
        made.save()
        made.rows.all().delete()
        models.QuotaScheduleRow.objects.bulk_create(_row(made, key, cells[key]) for key in cells)
        action = "quota_schedule.change" if old else "quota_schedule.create"
        _record(made, tree, cells, action, authority, now)
        quota_switches.switch_pool(pool_id=pool.pk, now=now)
        events.wake_on_commit()
        made.refresh_from_db()
        return made


def cancel_schedule(*, schedule_id: int, authority: Authority, now: datetime) -> None:
    """End a schedule; one that is open goes back to what was before it.

    Raises:
        NotFound, NotPermitted: as for editing it.
    """
    with transaction.atomic():
        models.Cluster.objects.locked()
        schedule = find_schedule(schedule_id, None, authority)
        _take_back(schedule, now)
        schedule.status = Status.CANCELLED
        schedule.save()
        tree = quotas.read_whole_tree(schedule.pool)
        cells = {key_of(row): row.cells for row in schedule.rows.all()}
        _record(schedule, tree, cells, "quota_schedule.cancel", authority, now)
        events.wake_on_commit()


def leave_schedules(*, key: Key, authority: Authority, now: datetime) -> None:
    """Take a department or project, which is moved or deleted, out of all schedules of all pools.

    What an open one set of it goes back first. A schedule without rows is cancelled.
    """
    level, unit_id = key
    rows = models.QuotaScheduleRow.objects.filter(**{f"{level.value}_id": unit_id})
    for row in rows.select_related("schedule__pool"):
        schedule = row.schedule
        if schedule.status == Status.ACTIVE:
            # The others keep their place: only this row goes back, with the schedule's reason.
            quota_switches.close_rows(schedule, [row], now=now)
            tree = quotas.read_whole_tree(schedule.pool)
            _record(schedule, tree, {key: row.cells}, "quota_schedule.leave", authority, now)
        row.delete()
        if schedule.status == Status.ACTIVE and not schedule.rows.exists():
            schedule.status, schedule.open = Status.CANCELLED, False
            schedule.save(update_fields=["status", "open"])


def find_schedule(
    schedule_id: int, pool_id: int | None, authority: Authority
) -> models.QuotaSchedule:
    """Return an active schedule of which the caller may change every row.

    Raises:
        NotFound: none of its rows is there for the caller.
        NotPermitted: one of its rows is another's to change.
    """
    schedule = (
        models.QuotaSchedule.objects.select_related("pool")
        .prefetch_related("rows")
        .filter(pk=schedule_id, status=Status.ACTIVE)
        .first()
    )
    if schedule is None or pool_id not in (None, schedule.pool_id):
        raise NotFound("scheduled change")
    keys = [key_of(row) for row in schedule.rows.all()]
    refusals: list[Exception] = []
    for key in keys:
        try:
            quotas.find_unit(key, authority)
        except NotFound as error:
            refusals.append(error)
    if len(refusals) == len(keys):
        raise NotFound("scheduled change")
    if refusals:
        raise NotPermitted(
            f"“{schedule.name}” also sets rows that are not yours to change. Ask a system admin.",
            code="schedule_of_others",
            target=schedule,
            params={"name": schedule.name},
        )
    return schedule


def _take_back(schedule: models.QuotaSchedule, now: datetime) -> None:
    if schedule.open:
        quota_switches.close(schedule, now=now)


def _columns(timing: Timing) -> dict[str, object]:
    weekly = timing.weekly
    if weekly is None:
        return {"at": timing.at}
    return {
        "days": sorted(weekly.days),
        "from_minute": weekly.from_minute,
        "to_minute": weekly.to_minute,
        "holidays": sorted(day.isoformat() for day in weekly.holidays),
    }


def _cells_of(tree: QuotaTree, edits: Sequence[QuotaEdit]) -> dict[Key, dict[str, object]]:
    """Return the columns of each row that a draft changes."""
    cells = {}
    for edit in edits:
        row = tree.row(edit.key)
        if row is None:
            continue
        wanted = quota_rules.normalized(edit.values)
        changed = {
            name: getattr(wanted, name)
            for name in FIELDS
            if getattr(wanted, name) != getattr(row.quota, name)
        }
        if changed:
            cells[edit.key] = changed
    return cells


def _row(
    schedule: models.QuotaSchedule, key: Key, cells: dict[str, object]
) -> models.QuotaScheduleRow:
    level, unit_id = key
    return models.QuotaScheduleRow(schedule=schedule, cells=cells, **{f"{level.value}_id": unit_id})


def _own_problems(
    made: models.QuotaSchedule,
    old: models.QuotaSchedule | None,
    timing: Timing,
    cells: Mapping[Key, object],
    now: datetime,
) -> list[Problem]:
    problems = []
    if not 1 <= len(made.name) <= NAME_LENGTH:
        problems.append(_problem("name", "bad_schedule_name", "Give a name of 1 to 60 characters."))
    same = models.QuotaSchedule.objects.filter(pool=made.pool, name=made.name, status=Status.ACTIVE)
    if same.exclude(pk=old.pk if old else 0).exists():
        problems.append(
            _problem(
                "name",
                "schedule_name_taken",
                f"There is already a scheduled change called {made.name}. Choose another name.",
                name=made.name,
            )
        )
    if not cells:
        problems.append(
            _problem("quota", "nothing_to_schedule", "The draft changes nothing. Edit a row first.")
        )
    if timing.weekly is not None:
        problems += _weekly_problems(timing.weekly)
    elif timing.at is None or timing.at <= now:
        problems.append(_problem("at", "not_later", "Choose a time that is still to come."))
    return problems


def _weekly_problems(weekly: Weekly) -> list[Problem]:
    minutes = (weekly.from_minute, weekly.to_minute)
    if not all(0 <= minute < DAY_MINUTES for minute in minutes):
        return [_problem("from", "bad_hour", "Use times from 00:00 to 23:59.")]
    if not weekly.days or not weekly.days <= set(range(7)):
        return [_problem("days", "no_days", "Choose at least one day of the week.")]
    if len(weekly.holidays) > MOST_HOLIDAYS:
        return [_problem("holidays", "many_holidays", "Give at most 400 dates.")]
    if len(weekly.days) == 7 and weekly.minutes == DAY_MINUTES:
        return [
            _problem(
                "days",
                "always",
                "This window never ends. Save the values at once instead, or leave a time out.",
            )
        ]
    return []


def _value_problems(tree: QuotaTree, wanted: Mapping[Key, QueueQuota]) -> list[Problem]:
    """Return what is wrong with the values; what work holds may be less when the time comes."""
    after = tree.with_quotas({key: quota_rules.normalized(each) for key, each in wanted.items()})
    found = quota_rules.find_problems(tree=after, edited=wanted)
    problems = [each for each in found if each.code != "quota_below_protected"]
    if models.Cluster.objects.one().forbid_oversubscription:
        problems += quota_rules.find_oversubscription(tree=after, edited=wanted)
    return problems


def _overlapping(
    made: models.QuotaSchedule,
    old: models.QuotaSchedule | None,
    cells: Mapping[Key, object],
    zone: ZoneInfo,
    tree: QuotaTree,
) -> list[Problem]:
    problems = []
    others = models.QuotaSchedule.objects.filter(pool=made.pool, status=Status.ACTIVE)
    for other in others.exclude(pk=old.pk if old else 0).prefetch_related("rows"):
        shared = [key for row in other.rows.all() if (key := key_of(row)) in cells]
        if not shared or not _at_the_same_time(made, other, zone):
            continue
        row = tree.row(shared[0])
        unit = row.name if row else ""
        problems.append(
            _problem(
                "name",
                "schedules_overlap",
                f"“{made.name}” and “{other.name}” would both set {unit} at the same time. Change the "
                "times of one, or leave the row out.",
                name=made.name,
                other=other.name,
                unit=unit,
            )
        )
    return problems


def _at_the_same_time(
    one: models.QuotaSchedule, other: models.QuotaSchedule, zone: ZoneInfo
) -> bool:
    if one.at is not None and other.at is not None:
        return one.at == other.at
    if one.at is None and other.at is None:
        return calendar.overlap(weekly_of(one), weekly_of(other))
    once, weekly = (one, other) if one.at is not None else (other, one)
    assert once.at is not None
    window = calendar.window_at(weekly=weekly_of(weekly), zone=zone, at_us=to_us(once.at))
    return window is not None


def _record(
    schedule: models.QuotaSchedule,
    tree: QuotaTree,
    cells: Mapping[Key, Mapping[str, object]],
    action: str,
    authority: Authority,
    now: datetime,
) -> None:
    """Append an entry for each row, so that each reader finds what concerns its own scope."""
    told = {
        "schedule": schedule.name,
        "pool": schedule.pool.name,
        "at": schedule.at.isoformat() if schedule.at else None,
        "days": schedule.days,
        "from_minute": schedule.from_minute,
        "to_minute": schedule.to_minute,
        "holidays": schedule.holidays,
    }
    for key, changed in cells.items():
        row = tree.row(key)
        if row is None:
            continue
        audit.record(
            authority=authority,
            now=now,
            action=action,
            target=quotas.find_unit(key, SYSTEM),
            before={name: getattr(row.quota, name) for name in changed},
            after={**told, **changed},
            reason=schedule.reason,
        )


def _problem(field: str, code: str, message: str, **params: object) -> Problem:
    return Problem(field=field, code=code, message=message, params=params)
