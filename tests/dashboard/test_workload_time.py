"""Where a workload's waiting went, and what it did with what it held: exact sums, rights, the page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from access.roles import Role
from dashboard.use_chart import HEIGHT, WIDTH, draw
from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.vocabulary import Reason
from scheduler.queries import use_over_time, wait_parts
from scheduler.queries.reasons import name_of
from tests.dashboard.conftest import person

S = 1_000_000
HOUR = 3600 * S


@pytest.mark.parametrize(
    ("waits", "notes", "parts"),
    [
        # A reason a moment after the submission, then another, until it started
        (
            [(0, 60 * S)],
            [(1 * S, "OverLimit"), (41 * S, "Fragmented")],
            {"next_cycle": 1 * S, "OverLimit": 40 * S, "Fragmented": 19 * S},
        ),
        # Each wait begins anew: what held in the one before is over
        (
            [(0, 10 * S), (100 * S, 103 * S)],
            [(0, "Reserved"), (101 * S, "OverLimit")],
            {"Reserved": 10 * S, "next_cycle": 1 * S, "OverLimit": 2 * S},
        ),
        # The same reason twice is one part
        (
            [(0, 30 * S)],
            [(0, "OverLimit"), (10 * S, "Fragmented"), (15 * S, "OverLimit")],
            {"OverLimit": 25 * S, "Fragmented": 5 * S},
        ),
        # It started at once
        ([(0, 2 * S)], [], {"next_cycle": 2 * S}),
        # Its reasons are no longer kept
        ([(0, 900 * S)], [], {"unrecorded": 900 * S}),
        # What was noted after it had started belongs to nothing
        ([(0, 5 * S)], [(5 * S, "OverLimit")], {"next_cycle": 5 * S}),
        ([], [(5 * S, "OverLimit")], {}),
        # A service is sent to zero before its last replica has ended; somebody calls it at 60
        (
            [(20 * S, 62 * S)],
            [(15 * S, wait_parts.ASLEEP), (60 * S, "")],
            {"asleep": 40 * S, "next_cycle": 2 * S},
        ),
    ],
)
def test_waiting_divides_by_the_reason_that_held(waits, notes, parts):
    found = wait_parts.divide(waits, notes)
    assert found == parts
    assert sum(found.values()) == sum(until - since for since, until in waits)


@pytest.mark.parametrize(
    ("held", "taken"),
    [
        ([], 0),
        # Placed at 10, running at 14
        ([(10, 50, 14)], 4),
        # A gang runs when its first replica does; a second start counts again
        ([(10, 50, 14), (10, 50, 16), (60, None, None)], 4 + 40),
        # It ended before it ran
        ([(10, 30, None)], 20),
        # A replica that joins a running one is no start of the workload
        ([(10, None, 14), (40, None, None)], 4),
    ],
)
def test_a_start_is_from_the_place_to_the_first_that_runs(held, taken):
    assert wait_parts.starting(held, now_us=100) == taken


def test_every_reason_has_a_name():
    assert all(name_of(reason) for reason in Reason)


def test_what_was_held_is_computing_idle_or_not_measured():
    # Given 0.50 held for four hours: computing for two, idle for one, not measured in the last
    use = use_over_time.summed(
        held=[(0, 4 * HOUR, 500)],
        computing=[(0, 2 * HOUR, 500)],
        idle=[(2 * HOUR, 3 * HOUR, 500)],
        window=(0, 4 * HOUR),
    )
    # Then the sums are exact, and columns that are alike are one stretch
    assert (use.held, use.computing, use.idle, use.unknown) == (
        2000 * HOUR,
        1000 * HOUR,
        500 * HOUR,
        500 * HOUR,
    )
    assert [(s.columns, s.computing_mgpu, s.idle_mgpu, s.unknown_mgpu) for s in use.steps] == [
        (120, 500, 0, 0),
        (60, 0, 500, 0),
        (60, 0, 0, 500),
    ]
    # And the chart covers the window without a gap
    chart = draw(use)
    assert [(mark.what, mark.x, mark.width) for mark in chart.rectangles] == [
        ("computing", 0, WIDTH // 2),
        ("idle", WIDTH // 2, WIDTH // 4),
        ("unknown", WIDTH * 3 // 4, WIDTH // 4),
    ]
    assert all(mark.y + mark.height == HEIGHT for mark in chart.rectangles)


def test_a_column_that_is_partly_held_has_its_share_and_a_pause_is_nothing():
    use = use_over_time.summed(
        held=[(0, 90 * S, 1000), (180 * S, 240 * S, 1000)],
        computing=[(0, 90 * S, 1000), (180 * S, 210 * S, 1000)],
        idle=[],
        window=(0, 240 * S),
    )
    assert (use.held, use.computing, use.unknown) == (150_000 * S, 120_000 * S, 30_000 * S)
    assert [mark.what for mark in draw(use).rectangles] == [
        "computing",
        "none",
        "computing",
        "unknown",
    ]


@pytest.fixture
def waited(scene):
    """seg-xl has waited for an hour: a minute without a reason, then two reasons."""
    row = models.Workload.objects.get(name="seg-xl")
    at = timezone.now() - timedelta(hours=1)
    models.Workload.objects.filter(pk=row.pk).update(submitted_at=at, phase_since=at)
    models.WorkloadEvent.objects.filter(workload=row).delete()
    for seconds, code in ((2, "OverLimit"), (1802, "Fragmented")):
        models.WorkloadEvent.objects.create(
            workload=row, at=at + timedelta(seconds=seconds), code="waits", params={"code": code}
        )
    return row


@pytest.mark.django_db
def test_the_parts_are_the_whole_waiting(waited, everything):
    now = timezone.now()
    found = wait_parts.read_waited(visible=everything, workload_id=waited.pk, now=now)
    waited.refresh_from_db()
    assert found.waited_us == to_us(now) - to_us(waited.submitted_at)
    assert sum(part.us for part in found.parts) == found.waited_us
    assert {part.code: part.us for part in found.parts if part.code != "Fragmented"} == {
        "OverLimit": 1800 * S,
        "next_cycle": 2 * S,
    }
    assert sum(part.permille for part in found.parts) == 1000
    assert (found.open, found.spells) == (True, 1)


@pytest.mark.django_db
def test_the_page_shows_both_to_who_may_see_the_workload(waited, client, admin):
    client.force_login(admin)
    page = client.get(reverse("workload", args=[waited.pk])).content.decode()
    assert "Where the waiting went" in page
    assert "A limit was reached" in page
    assert "30 min" in page
    # Nothing was held: there is no chart of use
    assert "Use over time" not in page
    # When it has held something for ten minutes, idle in the last five
    now = timezone.now()
    hold(waited, since=now - timedelta(minutes=10))
    page = client.get(reverse("workload", args=[waited.pk])).content.decode()
    assert "Use over time" in page
    assert 'fill="url(#use-hatch)"' in page
    # And in Chinese
    client.cookies["tidegate_language"] = "zh-hant"
    page = client.get(reverse("workload", args=[waited.pk])).content.decode()
    assert "等待時間的去向" in page
    assert "使用量變化" in page


@pytest.mark.django_db
def test_other_projects_work_has_neither(waited, nlp_lab):
    hold(waited, since=timezone.now() - timedelta(minutes=10))
    args = {"visible": nlp_lab, "workload_id": waited.pk, "now": timezone.now()}
    assert wait_parts.read_waited(**args) is None
    assert use_over_time.read_use(**args) is None


@pytest.mark.django_db
def test_a_member_of_its_project_sees_it(waited, client):
    client.force_login(person("mei", Role.RESEARCHER, project="vision-lab"))
    page = client.get(reverse("workload", args=[waited.pk])).content.decode()
    assert "Where the waiting went" in page


def hold(workload, *, since):
    """Half a GPU since then, computing at first and idle in the last five minutes."""
    now = timezone.now()
    node = models.Node.objects.first()
    replica = models.Replica.objects.create(
        workload=workload, node=node, booked_at=since, attempt=1, mgpu=500
    )
    both = {"replica": replica, "project_id": workload.project_id, "pool_id": workload.pool_id}
    models.AllocationInterval.objects.create(
        **both,
        workload=workload,
        attempt=1,
        department_id=workload.project.department_id,
        node=node,
        mgpu=500,
        kind=workload.kind,
        preemptible=True,
        from_us=to_us(since),
        running_us=to_us(since) + 4 * S,
    )
    half_us = to_us(since + timedelta(minutes=5))
    for idle, begin, end in ((False, to_us(since), half_us), (True, half_us, to_us(now))):
        models.ActivityInterval.objects.create(
            **both, idle=idle, mgpu=500, from_us=begin, to_us=end, open=idle
        )
