"""Makes the switches of scheduled changes that are due: once each, as one transaction, with the reason.

A switch is not an order that could be lost or doubled. Each time the schedule is asked what should be in
force now, and that is compared with what is; so a switch that was missed while nothing ran is made at
the next tick, and one that a crash undid is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Q

from scheduler import models
from scheduler.core import calendar
from scheduler.core.instants import to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.operations import quota_rules, quotas, tell
from scheduler.operations.authority import SystemAuthority
from scheduler.operations.refused import QuotaRefused
from scheduler.queries.quota_schedules import key_of, weekly_of
from scheduler.queries.quota_tree import Key, QuotaRow, QuotaTree

#: A switch that was refused is tried again after this.
TRY_AGAIN = timedelta(seconds=60)

Status = models.QuotaSchedule.Status
Cells = dict[str, int | bool]


def apply_due(*, now: datetime) -> bool:
    """Make the switches that are due; True where quotas were changed. Cheap where nothing is due."""
    cluster = models.Cluster.objects.one()
    found = [each for each in _candidates() if _is_due(each, ZoneInfo(cluster.time_zone), now)]
    changed = False
    for pool_id in sorted({each.pool_id for each in found}):
        with transaction.atomic():
            changed |= switch_pool(pool_id=pool_id, now=now)
    return changed


def switch_pool(*, pool_id: int, now: datetime) -> bool:
    """Make the switches of one pool, inside the caller's transaction; True where quotas were changed."""
    cluster = models.Cluster.objects.locked()
    zone = ZoneInfo(cluster.time_zone)
    due = [each for each in _candidates() if each.pool_id == pool_id and _is_due(each, zone, now)]
    changed = False
    # What ends goes first, so that a window that begins at the same instant finds what was before both.
    for schedule in sorted(
        due, key=lambda each: (not each.open, each.at is None, each.at, each.pk)
    ):
        changed |= _Switch(schedule, now).make(_wanted(schedule, zone, now))
    return changed


def close(schedule: models.QuotaSchedule, *, now: datetime) -> None:
    """End an open window before its time, inside the caller's transaction on a locked cluster.

    Raises:
        QuotaRefused: what was before can't be any more.
    """
    _Switch(schedule, now).close()


def close_rows(
    schedule: models.QuotaSchedule, rows: list[models.QuotaScheduleRow], *, now: datetime
) -> None:
    """Take single rows of an open schedule back, or off their way; it stays open for the others."""
    switch = _Switch(schedule, now)
    switch.rows = rows
    was_open = schedule.open
    if was_open:
        switch.close()
    schedule.open = was_open
    schedule.save(update_fields=["open"])


def _candidates() -> Iterable[models.QuotaSchedule]:
    on_the_way = models.QuotaScheduleRow.objects.exclude(aim={}).values("schedule")
    return (
        models.QuotaSchedule.objects.filter(Q(status=Status.ACTIVE) | Q(pk__in=on_the_way))
        .select_related("pool")
        .prefetch_related("rows")
        .order_by("pk")
    )


def _wanted(schedule: models.QuotaSchedule, zone: ZoneInfo, now: datetime) -> bool:
    """Test whether its values should be in force now."""
    if schedule.status != Status.ACTIVE:
        return False
    if schedule.at is not None:
        return schedule.at <= now
    at_us = to_us(now)
    return calendar.window_at(weekly=weekly_of(schedule), zone=zone, at_us=at_us) is not None


def _is_due(schedule: models.QuotaSchedule, zone: ZoneInfo, now: datetime) -> bool:
    if schedule.tried_at is not None and timedelta(0) <= now - schedule.tried_at < TRY_AGAIN:
        return False
    wanted = _wanted(schedule, zone, now)
    return (
        wanted != schedule.open
        or (bool(schedule.refused) and not wanted)
        or any(row.aim for row in schedule.rows.all())
    )


@dataclass(slots=True)
class _Move:
    """One row on its way: where it should be, and how far it comes now."""

    row: models.QuotaScheduleRow
    unit: QuotaRow
    target: QueueQuota
    reached: QueueQuota


class _Switch:
    """One schedule at work, on a locked cluster."""

    def __init__(self, schedule: models.QuotaSchedule, now: datetime) -> None:
        self.schedule = schedule
        self.now = now
        self.rows = list(schedule.rows.all())
        self.tree: QuotaTree = quotas.read_whole_tree(schedule.pool)

    def make(self, wanted: bool) -> bool:  # noqa: FBT001
        """Do what is due; a refusal is kept with the schedule, said once, and tried again later."""
        try:
            with transaction.atomic():
                if wanted and not self.schedule.open:
                    return self.open()
                if self.schedule.open and not wanted:
                    return self.close()
                return self.go_on()
        except QuotaRefused as refused:
            self._note(refused)
            return False

    def open(self) -> bool:
        """Bring the schedule's values into force and keep what was before; for good where it is once."""
        aims = self._aims_of_others()
        moves = []
        for row, unit in self._units():
            now_in_force = _as_cells(unit.quota, row.cells)
            before = {**now_in_force, **aims.get(key_of(row), {})}
            row.before = {} if self.schedule.at else {name: before[name] for name in row.cells}
            moves.append(self._move(row, unit, row.cells))
        self._write(moves)
        if self.schedule.at is not None:
            self.schedule.status = Status.DONE
        else:
            self.schedule.open = True
        return self._done(moves)

    def close(self) -> bool:
        """Go back to what was before; a cell that a person has changed meanwhile stays as it is."""
        moves = []
        for row, unit in self._units():
            untouched = self._untouched(row, unit, row.before)
            moves.append(self._move(row, unit, untouched))
            row.before = {}
        self._write(moves)
        self.schedule.open = False
        return self._done(moves)

    def go_on(self) -> bool:
        """Go further towards what a switch could not reach, as far as room has come free."""
        moves = []
        for row, unit in self._units():
            if not row.aim:
                continue
            aim = self._untouched(row, unit, row.aim)
            moves.append(self._move(row, unit, aim))
        nearer = [move for move in moves if move.reached != move.unit.quota]
        if not nearer:
            dropped = [move.row for move in moves if not move.row.aim]
            models.QuotaScheduleRow.objects.bulk_update(dropped, ["aim"])
            self._forget_refusal()
            return False
        self._write(moves)
        return self._done(moves, going_on=True)

    def _units(self) -> Iterable[tuple[models.QuotaScheduleRow, QuotaRow]]:
        for row in self.rows:
            unit = self.tree.row(key_of(row))
            if unit is not None:
                yield row, unit

    def _move(
        self, row: models.QuotaScheduleRow, unit: QuotaRow, cells: Mapping[str, object]
    ) -> _Move:
        target = quota_rules.normalized(replace(unit.quota, **cells))  # type: ignore[arg-type]
        reached = quota_rules.within_reach(unit, target)
        row.aim = {} if reached == target else _as_cells(target, cells)
        row.written = _as_cells(reached, cells)
        return _Move(row, unit, target, reached)

    def _untouched(
        self, row: models.QuotaScheduleRow, unit: QuotaRow, cells: Mapping[str, object]
    ) -> dict[str, object]:
        current = _as_cells(unit.quota, cells)
        return {
            name: value
            for name, value in cells.items()
            if current[name] == row.written.get(name, current[name])
        }

    def _aims_of_others(self) -> dict[Key, Cells]:
        """Return where earlier switches still want to go with these rows, and end their going."""
        keys = {key_of(row): row for row in self.rows}
        found: dict[Key, Cells] = {}
        others = models.QuotaScheduleRow.objects.filter(schedule__pool=self.schedule.pool).exclude(
            aim={}
        )
        for other in others:
            unit = self.tree.row(key_of(other))
            if key_of(other) not in keys or unit is None:
                continue
            aim = self._untouched(other, unit, other.aim)
            found.setdefault(key_of(other), {}).update(aim)  # type: ignore[arg-type]
            other.aim = {}
            other.save(update_fields=["aim"])
        return found

    def _write(self, moves: list[_Move]) -> None:
        wanted = {move.unit.key: move.reached for move in moves if move.reached != move.unit.quota}
        if wanted:
            quotas.write_quotas(
                pool=self.schedule.pool,
                tree=self.tree,
                wanted=wanted,
                authority=SystemAuthority(name=self.schedule.created_by, door="schedule"),
                now=self.now,
                reason=reason_of(self.schedule),
            )

    def _done(self, moves: list[_Move], *, going_on: bool = False) -> bool:
        """Keep where the schedule stands now; tell who is concerned where it could not go whole."""
        models.QuotaScheduleRow.objects.bulk_update(self.rows, ["before", "written", "aim"])
        self.schedule.switched_at = self.now
        self._forget_refusal()
        self.schedule.save()
        for move in moves:
            arrived = move.reached == move.target
            if arrived == going_on:
                self._tell(
                    "quota_switch_arrived" if arrived else "quota_switch_short",
                    [move.unit.department_id],
                    unit=move.unit.name,
                    target=move.target.quota_mgpu,
                    reached=move.reached.quota_mgpu,
                    holders=", ".join(move.unit.holders),
                )
        return bool(moves)

    def _note(self, refused: QuotaRefused) -> None:
        # What was prepared on the objects was taken back with the savepoint: only the refusal is kept.
        said = [{"code": each.code, "params": each.params} for each in refused.problems]
        known = models.QuotaSchedule.objects.get(pk=self.schedule.pk)
        if known.refused != said:
            departments = [unit.department_id for _row, unit in self._units()]
            self._tell("quota_switch_refused", departments)
        models.QuotaSchedule.objects.filter(pk=known.pk).update(refused=said, tried_at=self.now)

    def _forget_refusal(self) -> None:
        if self.schedule.refused or self.schedule.tried_at:
            self.schedule.refused, self.schedule.tried_at = [], None
            self.schedule.save(update_fields=["refused", "tried_at"])

    def _tell(self, code: str, department_ids: Iterable[int], **params: object) -> None:
        tell.tell_admins(
            department_ids=department_ids,
            code=code,
            params={"schedule": self.schedule.name, **params},
            now=self.now,
        )


def reason_of(schedule: models.QuotaSchedule) -> str:
    """Return what stands as the reason in the audit log and the history."""
    told = f": {schedule.reason}" if schedule.reason else ""
    return f"Schedule “{schedule.name}”{told}"


def _as_cells(quota: QueueQuota, names: Iterable[str]) -> Cells:
    return {name: getattr(quota, name) for name in names}
