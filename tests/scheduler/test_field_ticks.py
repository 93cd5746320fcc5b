"""Field scenarios in the tables: B02, B09, B13 and B14 up to the ledger; B26, B28 and B43: delivered
twice, booked for something gone, ticks in a pile.
"""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest

from dashboard.celery import app
from scheduler import models, tasks
from scheduler.core.vocabulary import Kind
from scheduler.operations import workloads
from scheduler.operations.authority import SYSTEM
from scheduler.tick import books, converge, decide, lease, observe, run
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


def test_b02_devices_times_fraction_stand_on_the_cards_and_in_the_ledger(ticker):
    # Given four cards and a project that is guaranteed 1.00
    place = places.card(devices=4).department("d", quota="4").project("team", of="d", quota="1")
    # When workspaces ask for 2 x 0.60 and for 2 x 0.50
    place.submit("six", of="team", gpu="0.60", devices=2, kind=Kind.WORKSPACE, command=["fake"])
    place.submit("five", of="team", gpu="0.50", devices=2, kind=Kind.WORKSPACE, command=["fake"])
    ticker.settle()
    # Then the second runs, and counts for 1.00 on the cards and in the ledger
    assert place.phases() == {"six": "pending", "five": "running"}
    held = sorted(models.Device.objects.values_list("allocated_mgpu", flat=True))
    assert held == [0, 0, 500, 500]
    assert models.AllocationInterval.objects.get().mgpu == 1000
    reason = place.fresh("six").reason
    assert (reason["quota"], reason["requested"]) == (1000, 1200)


def test_b09_after_a_restart_of_the_control_plane_the_stopped_one_comes_before_who_never_ran(
    ticker,
):
    # Given a full project with T1 and T2 running and T3 waiting
    place = (
        places.card().department("d", quota="1").project("p", of="d", quota="0.18", limit="0.18")
    )
    for number in (1, 2, 3):
        at = ticker.clock() + timedelta(milliseconds=number)
        place.submit(f"t{number}", of="p", gpu="0.09", command=["fake"], at=at)
    ticker.settle()
    first_submitted = place.fresh("t2").submitted_at
    # When a service comes, and is deleted after a restart
    service = place.submit("service", of="p", gpu="0.09", kind=Kind.INFERENCE, command=["fake"])
    ticker.settle(ticks=4)
    assert place.phases() == {
        "t1": "running",
        "t2": "pending",
        "t3": "pending",
        "service": "running",
    }
    decide.forget()
    workloads.delete_workload(workload_id=service.pk, authority=SYSTEM, now=ticker.clock())
    ticker.settle(ticks=4)
    # Then T2 goes on before T3 starts, under its first submission time
    assert (place.phase("t2"), place.phase("t3")) == ("running", "pending")
    assert place.fresh("t2").submitted_at == first_submitted


def test_b13_both_workers_of_a_gang_are_told_at_once_and_end_at_one_time_in_the_ledger(ticker):
    # Given a borrowed gang of 2 x 0.20 on a card of which the rest is held
    place = (
        places.card()
        .department("d", quota="1")
        .project("lender", of="d", quota="0.40")
        .project("borrower", of="d", quota="0")
        .project("rest", of="d", quota="0.60")
    )
    gang = place.submit(
        "gang", of="borrower", gpu="0.20", kind=Kind.DISTRIBUTED, command=["fake"],
        min_replicas=2, max_replicas=2,
    )  # fmt: skip
    place.submit("held", of="rest", gpu="0.60", command=["fake"])
    ticker.settle()
    assert place.phases() == {"gang": "running", "held": "running"}
    # When the lender claims 0.20
    place.submit("claim", of="lender", gpu="0.20", command=["fake"])
    ticker.settle(ticks=5)
    # Then both workers were told in the same moment, and their GPU hours end at one time
    workers = models.Replica.objects.filter(workload=gang, attempt=1)
    assert len(set(workers.values_list("stopping_at", flat=True))) == 1
    ends = models.AllocationInterval.objects.filter(replica__in=workers)
    assert len(ends) == 2
    assert len(set(ends.values_list("to_us", flat=True))) == 1
    assert place.phase("claim") == "running"


def test_b14_a_start_that_always_fails_is_told_once_a_change_and_tried_a_bounded_number_of_times(
    ticker,
):
    # Given a training whose every start fails
    place = places.article()
    bad = place.submit("bad", of="unit-a", gpu="0.09", command=["fake", "exit=3", "after=1"])
    # When a minute of ticks goes by
    ticker.settle(ticks=60)
    # Then it was tried three times, after pauses that grow, with one event a change, and holds nothing
    assert (place.phase("bad"), place.fresh("bad").attempts) == ("failed", 3)
    starts = [each.from_us for each in models.AllocationInterval.objects.order_by("from_us")]
    assert len(starts) == 3
    assert starts[2] - starts[1] > starts[1] - starts[0]
    told = models.WorkloadEvent.objects.filter(workload=bad)
    assert told.filter(code="failed_retrying").count() == 2
    assert told.count() < 20
    assert models.Device.objects.get().allocated_mgpu == 0


def test_b26_a_launch_that_is_carried_out_again_starts_nothing(ticker):
    # Given a training that was launched, and a tick that died before it could write so
    place = places.article()
    place.submit("train-1", of="unit-a", gpu="0.09", command=["fake", "after=150"])
    ticker.tick(seconds=1)
    models.Replica.objects.update(launched_at=None)
    # When the next ticks come, then the same attempt is found running: one start, 150 s in the ledger
    ticker.settle(ticks=160)
    row = models.Replica.objects.get()
    interval = models.AllocationInterval.objects.get()
    assert (place.phase("train-1"), row.attempt) == ("completed", 1)
    assert 149_000_000 <= interval.to_us - interval.from_us <= 152_000_000


def test_b26_no_task_lasts_as_long_as_a_workload():
    # A tick's whole body is one call that returns; nothing in it waits for a workload's end
    assert "run.run_tick" in inspect.getsource(tasks.tick)
    assert tasks.LINGER_SHARE < 1


@pytest.mark.parametrize("moment", ["before it was launched", "while it starts", "while it runs"])
def test_b28_a_workload_deleted_at_any_moment_holds_nothing_two_ticks_later(
    ticker, moment, monkeypatch
):
    place = places.article()
    workload = place.submit("gone", of="unit-a", gpu="0.50", command=["fake"])
    if moment == "before it was launched":
        monkeypatch.setattr(converge, "converge", lambda **_: False)
        ticker.tick(seconds=1)
        monkeypatch.undo()
    elif moment == "while it starts":
        run.run_pass(tally=run.Tally(), clock=ticker.clock)
    else:
        ticker.settle()
    workloads.delete_workload(workload_id=workload.pk, authority=SYSTEM, now=ticker.clock())
    ticker.settle(ticks=2)
    assert models.Device.objects.get().allocated_mgpu == 0
    assert place.fresh("gone").deleted_at is not None
    assert not models.Replica.objects.exclude(phase="ended").exists()
    assert books.find_differences() == []


def test_b28_a_booking_that_nothing_holds_is_found_and_set_right(ticker):
    # Given a device whose book says 0.50 and nothing that holds it
    place = places.article()
    models.Device.objects.update(allocated_mgpu=500, allocated_mib=23_034)
    assert {d.what for d in books.find_differences()} == {"device_mgpu", "device_mib"}
    # When the standing check comes, then a workload of 0.76 fits the empty card again
    place.submit("big", of="unit-c", gpu="0.76", command=["fake"])
    ticker.settle(ticks=3)
    assert books.find_differences() == []
    assert place.phase("big") == "running"


def test_b43_ticks_that_piled_up_are_dropped_but_for_the_newest():
    # Beat's messages end before the next two are due: a pile of 120 shrinks to one run
    entry = app.conf.beat_schedule["tick"]
    assert entry["options"]["expires"] <= 2 * max(1, entry["schedule"])


def test_b43_a_tick_that_comes_while_another_is_at_work_does_nothing(ticker):
    place = places.article()
    place.submit("train-1", of="unit-a", gpu="0.09", command=["fake"])
    assert lease.take(owner="slow", now=ticker.clock())
    assert ticker.tick(owner="second") is None
    assert place.phase("train-1") == "pending"
    assert not models.Replica.objects.exists()


def test_b43_what_a_killed_tick_left_half_done_is_repaired_by_the_next(ticker, monkeypatch):
    # Given a tick that is killed between its booking and its launch, holding the lease
    place = places.article()
    service = {"kind": Kind.INFERENCE, "command": ["fake"]}
    place.submit("chat", of="dev-chat", gpu="0.20", **service)

    class Killed(BaseException):
        pass

    def die(**_):
        raise Killed

    monkeypatch.setattr(converge, "converge", die)
    monkeypatch.setattr(lease, "give_back", lambda **_: None)
    with pytest.raises(Killed):
        ticker.tick(seconds=1, owner="killed")
    monkeypatch.undo()
    assert models.Replica.objects.get().launched_at is None
    # When the lease is over and the next tick comes, then it runs, once
    ticker.settle(ticks=3, seconds=lease.LEASE_S)
    assert place.phase("chat") == "running"
    assert [o.phase.value for o in observe.gather(now=ticker.clock()).by_key.values()] == [
        "running"
    ]
