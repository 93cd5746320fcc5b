"""Field scenarios B26, B28 and B43: delivered twice, booked for something gone, ticks in a pile."""

from __future__ import annotations

import inspect

import pytest

from dashboard.celery import app
from scheduler import models, tasks
from scheduler.core.vocabulary import Kind
from scheduler.operations import workloads
from scheduler.operations.authority import SYSTEM
from scheduler.tick import books, converge, lease, observe, run
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


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
