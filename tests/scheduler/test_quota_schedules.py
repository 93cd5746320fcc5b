"""Scheduled changes: for good at a time, in windows of each week; once, whole, and back again."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from scheduler import models
from scheduler.core.calendar import Weekly
from scheduler.core.instants import to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Kind, Level
from scheduler.operations import quota_schedules, quota_switches, quotas, tell, units
from scheduler.operations.authority import SYSTEM
from scheduler.operations.quota_schedules import Timing
from scheduler.operations.refused import QuotaRefused
from scheduler.queries.usage_check import check_ledger
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db

#: START is a Monday, 09:00 UTC. Nights of Monday to Friday, without a holiday.
NIGHTS = Weekly(days=frozenset(range(5)), from_minute=19 * 60, to_minute=7 * 60)
EVENING = START.replace(hour=19)
MORNING = START.replace(hour=7) + timedelta(days=1)


@pytest.fixture
def place():
    return (
        places.card(devices=4)
        .department("lab", quota="3", limit="4")
        .project("serve", of="lab", quota="2", limit="4")
        .project("train", of="lab", quota="1", limit="4")
    )


@pytest.fixture
def told(monkeypatch):
    """Everyone is told of everything; without the rights of tests there is nobody."""
    monkeypatch.setattr(tell, "_sources", [lambda action, department_id: ["head"]])
    return lambda: list(models.Notification.objects.order_by("pk").values_list("code", flat=True))


def edit(place, name, **values):
    project = place.projects.get(name)
    key = (Level.PROJECT, project.pk) if project else (Level.DEPARTMENT, place.departments[name].pk)
    return quotas.QuotaEdit(level=key[0], id=key[1], values=QueueQuota(**values))


def schedule(place, *edits, name="nights", at=None, weekly=None, now=START, schedule_id=None):
    return quota_schedules.save_schedule(
        pool_id=place.pool.pk,
        name=name,
        timing=Timing(at=at, weekly=weekly),
        edits=list(edits),
        authority=SYSTEM,
        now=now,
        reason="inference sleeps",
        schedule_id=schedule_id,
    )


def to_train(place):
    """The night: serve keeps 1 of its 2, train has 2."""
    return (
        edit(place, "serve", quota_mgpu=1000, limit_mgpu=4000),
        edit(place, "train", quota_mgpu=2000, limit_mgpu=4000),
    )


def quota(place, name):
    row = models.ProjectQuota.objects.get(project=place.projects[name])
    return row.quota_mgpu


def both(place):
    return quota(place, "serve"), quota(place, "train")


def test_a_window_opens_and_closes_at_its_times_and_each_switch_is_on_record(place):
    schedule(place, *to_train(place), weekly=NIGHTS)
    assert not quota_switches.apply_due(now=EVENING - timedelta(seconds=1))
    assert both(place) == (2000, 1000)
    # When its time has come, then its values are in force, once
    assert quota_switches.apply_due(now=EVENING)
    assert both(place) == (1000, 2000)
    assert not quota_switches.apply_due(now=EVENING + timedelta(seconds=1))
    # And in the morning those from before are
    assert quota_switches.apply_due(now=MORNING)
    assert both(place) == (2000, 1000)
    entries = models.AuditEntry.objects.filter(action="quota.set", door="schedule")
    assert entries.count() == 4
    assert {each.reason for each in entries} == {"Schedule “nights”: inference sleeps"}
    rows = models.QuotaHistory.objects.filter(project=place.projects["serve"]).order_by("from_us")
    times = [(row.quota_mgpu, row.from_us, row.to_us) for row in rows]
    evening, morning = to_us(EVENING), to_us(MORNING)
    assert times[-3][2] == evening
    assert times[-2:] == [(1000, evening, morning), (2000, morning, None)]


def test_one_that_was_missed_is_made_at_start_once_and_a_whole_missed_night_is_none(place):
    schedule(place, *to_train(place), weekly=NIGHTS)
    # Given nothing ran from before the evening until midnight
    assert quota_switches.apply_due(now=EVENING + timedelta(hours=5))
    assert both(place) == (1000, 2000)
    # And from then until noon two days later: one switch brings everything to where it should be
    assert quota_switches.apply_due(now=EVENING + timedelta(hours=41))
    assert both(place) == (2000, 1000)
    before = models.QuotaHistory.objects.count()
    assert not quota_switches.apply_due(now=EVENING + timedelta(hours=42))
    # A night that passed wholly while nothing ran leaves no trace
    assert not quota_switches.apply_due(now=EVENING + timedelta(hours=65))
    assert models.QuotaHistory.objects.count() == before


def test_a_change_for_a_time_is_made_once_for_good(place):
    at = START + timedelta(hours=3)
    made = schedule(place, *to_train(place), name="new year", at=at)
    assert not quota_switches.apply_due(now=at - timedelta(microseconds=1))
    assert quota_switches.apply_due(now=at + timedelta(days=2))
    assert both(place) == (1000, 2000)
    made.refresh_from_db()
    assert made.status == "done"
    quotas.set_quotas(
        pool_id=place.pool.pk,
        edits=[edit(place, "serve", quota_mgpu=1500)],
        authority=SYSTEM,
        now=at + timedelta(days=3),
    )
    assert not quota_switches.apply_due(now=at + timedelta(days=4))
    assert quota(place, "serve") == 1500


def test_holidays_are_left_out_and_the_clusters_zone_counts(place):
    models.Cluster.objects.update(time_zone="Asia/Taipei")
    free = Weekly(
        days=NIGHTS.days,
        from_minute=NIGHTS.from_minute,
        to_minute=NIGHTS.to_minute,
        holidays=frozenset({date(2026, 11, 3)}),
    )
    schedule(place, *to_train(place), weekly=free)
    # 19:00 in Taipei is 11:00 UTC
    assert quota_switches.apply_due(now=START.replace(hour=11))
    assert quota_switches.apply_due(now=START.replace(hour=23))
    assert not quota_switches.apply_due(now=START.replace(hour=11) + timedelta(days=1))
    assert quota_switches.apply_due(now=START.replace(hour=11) + timedelta(days=2))


def test_a_cell_that_a_person_changes_meanwhile_stays_when_the_window_closes(place):
    schedule(place, *to_train(place), weekly=NIGHTS)
    quota_switches.apply_due(now=EVENING)
    quotas.set_quotas(
        pool_id=place.pool.pk,
        edits=[edit(place, "train", quota_mgpu=2500, limit_mgpu=4000)],
        authority=SYSTEM,
        now=EVENING + timedelta(hours=1),
    )
    quota_switches.apply_due(now=MORNING)
    assert both(place) == (2000, 2500)


def test_a_switch_stops_at_what_non_preemptible_work_holds_says_so_and_goes_on(place, ticker, told):
    # Given a service of two replicas that can't be interrupted holds 2.00
    for name in ("chat", "rag"):
        place.submit(name, of="serve", gpu="1", kind=Kind.INFERENCE, command=["fake"])
    ticker.settle()
    schedule(place, *to_train(place), weekly=NIGHTS, now=ticker.clock())
    # When the night would leave it 1.00
    ticker.tick(seconds=(EVENING - ticker.clock()).total_seconds())
    # Then it keeps 2.00, train has its 2.00, nobody is interrupted and the head is told
    assert both(place) == (2000, 2000)
    assert place.phases() == {"chat": "running", "rag": "running"}
    assert told() == ["quota_switch_short"]
    notice = models.Notification.objects.get()
    assert (notice.params["target"], notice.params["reached"]) == (1000, 2000)
    assert notice.params["holders"] == "chat, rag"
    # And when one ends, the rest of the switch is made by itself
    models.Workload.objects.filter(name="rag").update(stop_requested=True)
    ticker.settle(seconds=40)
    assert both(place) == (1000, 2000)
    assert told() == ["quota_switch_short", "quota_switch_arrived"]
    # In the morning it goes back to what was before the night
    ticker.tick(seconds=(MORNING - ticker.clock()).total_seconds())
    assert both(place) == (2000, 1000)


def test_what_a_closing_window_could_not_take_back_is_no_new_base(place, ticker, told):
    # Given a night that guarantees train 3.00, and a desk of 2.00 that began in it
    models.ProjectQuota.objects.filter(project=place.projects["serve"]).update(quota_mgpu=0)
    night = edit(place, "train", quota_mgpu=2000, limit_mgpu=4000)
    schedule(place, night, weekly=NIGHTS, now=START)
    ticker.tick(seconds=(EVENING - ticker.clock()).total_seconds())
    place.submit("desk", of="train", gpu="1", kind=Kind.WORKSPACE, command=["fake"])
    place.submit("lab", of="train", gpu="1", kind=Kind.WORKSPACE, command=["fake"])
    ticker.settle()
    # When the morning comes, and the next night, and the next morning
    ticker.tick(seconds=(MORNING - ticker.clock()).total_seconds())
    assert quota(place, "train") == 2000
    ticker.tick(seconds=12 * 3600)
    ticker.tick(seconds=12 * 3600)
    # And the desks end at last, then it is back at the 1.00 from before the first night
    models.Workload.objects.update(stop_requested=True)
    ticker.settle(seconds=40)
    assert quota(place, "train") == 1000


def test_overlapping_schedules_are_refused_with_the_names_of_both(place):
    schedule(place, *to_train(place), weekly=NIGHTS)
    early = Weekly(days=frozenset({1}), from_minute=6 * 60, to_minute=8 * 60)
    with pytest.raises(QuotaRefused, match=r"“early” and “nights” would both set train"):
        schedule(place, edit(place, "train", quota_mgpu=500), name="early", weekly=early)
    with pytest.raises(QuotaRefused, match=r"“once” and “nights”"):
        schedule(place, edit(place, "train", quota_mgpu=500), name="once", at=EVENING)
    # Each attempt is on record, with what was wanted and why it could not be
    refused = models.AuditEntry.objects.filter(action="quota_schedule.create", result="refused")
    assert [(entry.object_name, entry.after["refused"]) for entry in refused] == [
        ("train", ["schedules_overlap"]),
        ("train", ["schedules_overlap"]),
    ]
    assert {entry.after["quota_mgpu"] for entry in refused} == {500}
    # Other rows, or other times, are no overlap
    later = Weekly(days=frozenset({1}), from_minute=7 * 60, to_minute=8 * 60)
    schedule(place, edit(place, "train", quota_mgpu=500), name="breakfast", weekly=later)
    schedule(place, edit(place, "lab", quota_mgpu=3500), name="roof", weekly=NIGHTS)
    # At 07:00 one ends and the other begins: what was before both comes back in the end
    quota_switches.apply_due(now=EVENING)
    quota_switches.apply_due(now=MORNING)
    assert quota(place, "train") == 500
    quota_switches.apply_due(now=MORNING + timedelta(hours=1))
    assert quota(place, "train") == 1000


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"at": START - timedelta(hours=1)}, "not_later"),
        ({"weekly": Weekly(days=frozenset(), from_minute=0, to_minute=1)}, "no_days"),
        ({"weekly": Weekly(days=frozenset(range(7)), from_minute=5, to_minute=5)}, "always"),
        ({"weekly": Weekly(days=frozenset({0}), from_minute=1440, to_minute=5)}, "bad_hour"),
        ({"weekly": NIGHTS, "name": "  "}, "bad_schedule_name"),
    ],
)
def test_what_can_not_be_a_schedule_is_refused_with_its_field(place, changes, code):
    with pytest.raises(QuotaRefused) as refused:
        schedule(place, *to_train(place), **changes)
    assert [each.code for each in refused.value.problems] == [code]
    assert not models.QuotaSchedule.objects.exists()


def test_a_refused_switch_is_said_once_and_made_when_it_can_be(place, told):
    schedule(place, *to_train(place), weekly=NIGHTS)
    # Given a rule of the cluster forbids by the evening what the night needs
    models.DepartmentQuota.objects.update(quota_mgpu=2000)
    models.Cluster.objects.update(forbid_oversubscription=True)
    for seconds in (0, 1, 61):
        assert not quota_switches.apply_due(now=EVENING + timedelta(seconds=seconds))
    assert told() == ["quota_switch_refused"]
    assert both(place) == (2000, 1000)
    # When it may, then it is made
    models.Cluster.objects.update(forbid_oversubscription=False)
    assert quota_switches.apply_due(now=EVENING + timedelta(seconds=122))
    assert both(place) == (1000, 2000)
    assert models.QuotaSchedule.objects.get().refused == []


class Crash(Exception):
    """Stands for the end of the process at that point."""


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("scheduler.operations.quotas", "_history"),
        ("scheduler.operations.quotas.audit", "record"),
        ("scheduler.operations.quotas.events", "wake_on_commit"),
        ("scheduler.operations.quota_switches._Switch", "_done"),
    ],
)
@pytest.mark.parametrize("calls", [0, 1])
def test_a_crash_between_any_two_steps_neither_loses_nor_doubles_a_switch(
    place, monkeypatch, where, what, calls
):
    schedule(place, *to_train(place), weekly=NIGHTS)
    before = models.QuotaHistory.objects.count()
    left = [calls]

    def crashing(*args, **kwargs):
        if not left[0]:
            raise Crash
        left[0] -= 1
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        import importlib

        owner, _dot, name = where.rpartition(".")
        try:
            target = importlib.import_module(where)
        except ModuleNotFoundError:
            target = getattr(importlib.import_module(owner), name)
        real = getattr(target, what)
        patch.setattr(target, what, crashing)
        try:
            quota_switches.apply_due(now=EVENING)
        except Crash:
            # Then nothing of it has happened
            assert both(place) == (2000, 1000)
            assert models.QuotaHistory.objects.count() == before
            assert not models.QuotaSchedule.objects.get().open
    # And the next tick makes it, whole and once
    quota_switches.apply_due(now=EVENING + timedelta(seconds=1))
    quota_switches.apply_due(now=EVENING + timedelta(seconds=2))
    assert both(place) == (1000, 2000)
    assert models.QuotaHistory.objects.count() == before + 2
    assert models.AuditEntry.objects.filter(door="schedule").count() == 2


def test_cancelling_an_open_window_goes_back_and_editing_it_keeps_what_was_before(place):
    made = schedule(place, *to_train(place), weekly=NIGHTS)
    quota_switches.apply_due(now=EVENING)
    # When it is edited in the middle of the night to give train 3.00
    later = EVENING + timedelta(hours=1)
    again = schedule(
        place,
        edit(place, "train", quota_mgpu=3000, limit_mgpu=4000),
        weekly=NIGHTS,
        now=later,
        schedule_id=made.pk,
    )
    # Then only that is in force, at once, and cancelling it brings back the day
    assert again.pk == made.pk
    assert both(place) == (2000, 3000)
    quota_schedules.cancel_schedule(schedule_id=made.pk, authority=SYSTEM, now=later)
    assert both(place) == (2000, 1000)
    assert not quota_switches.apply_due(now=EVENING + timedelta(days=1))


def test_a_project_that_moves_or_goes_leaves_its_schedules_and_the_ledger_is_sound(place):
    place.department("other", quota="0")
    made = schedule(place, *to_train(place), weekly=NIGHTS)
    quota_switches.apply_due(now=EVENING)
    # When train moves to another department in the night
    later = EVENING + timedelta(hours=1)
    units.change_project(
        project_id=place.projects["train"].pk,
        name="train",
        color=2,
        department_id=place.departments["other"].pk,
        authority=SYSTEM,
        now=later,
    )
    # Then it has what it had by day, and serve is still in the night
    assert both(place) == (1000, 1000)
    made.refresh_from_db()
    assert (made.open, made.rows.count()) == (True, 1)
    # And when serve is deleted, the schedule is no more
    units.delete_project(
        project_id=place.projects["serve"].pk, authority=SYSTEM, now=later + timedelta(hours=1)
    )
    made.refresh_from_db()
    assert made.status == "cancelled"
    assert not quota_switches.apply_due(now=MORNING)
    open_rows = models.QuotaHistory.objects.filter(to_us=None, project__isnull=False)
    assert {(row.project.name, row.department.name) for row in open_rows} == {("train", "other")}
    found = check_ledger(now_us=to_us(datetime(2026, 11, 4, tzinfo=UTC)))
    assert all(not problems for problems in found.values())
