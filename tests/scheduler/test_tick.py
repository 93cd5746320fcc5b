"""The tick over tables and an engine: the article's scenes, ends, stops, failures, crashes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler import events, models
from scheduler.core.instants import to_us
from scheduler.core.vocabulary import Kind
from scheduler.operations import workloads
from scheduler.operations.authority import SYSTEM
from scheduler.queries.usage_check import check_ledger
from scheduler.tick import apply, books, converge, lease, observe, run, settle
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db(transaction=True)


def services(place):
    service = {"kind": Kind.INFERENCE, "command": ["fake"]}
    place.submit("chat", of="dev-chat", gpu="0.20", **service)
    place.submit("embed", of="dev-embed", gpu="0.10", **service)
    place.submit("answers", of="prod-inference", gpu="0.12", **service)


def seven_trainings(place, *, of="unit-a", count=7, command=("fake",), **changes):
    for number in range(1, count + 1):
        place.submit(f"train-{number}", of=of, gpu="0.09", command=list(command), **changes)


def running(place):
    return sorted(name for name, phase in place.phases().items() if phase == "running")


def assert_sound():
    assert books.find_differences() == []
    ledger = check_ledger(now_us=to_us(START + timedelta(days=1)))
    assert [text for problems in ledger.values() for text in problems] == []


def test_seven_submitted_five_run_two_wait_with_the_reason(ticker):
    # Given 0.30 of services in dev-test and 0.12 in prod, running
    place = places.article()
    services(place)
    ticker.settle()
    assert running(place) == ["answers", "chat", "embed"]
    # When seven trainings of 0.09 come
    seven_trainings(place)
    ticker.settle()
    # Then five run and two wait at the department's limit, though 0.13 of the card is free
    phases = place.phases()
    assert [phases[f"train-{n}"] for n in range(1, 8)] == ["running"] * 5 + ["pending"] * 2
    waiting = place.fresh("train-6")
    assert waiting.reason_code == "OverLimit"
    assert {k: waiting.reason[k] for k in ("level", "limit", "allocated", "requested")} == {
        "level": "department",
        "limit": 760,
        "allocated": 750,
        "requested": 90,
    }
    assert models.Device.objects.get().allocated_mgpu == 870
    assert_sound()


def test_a_guarantee_is_taken_back_from_one_borrower_and_the_ledger_follows_the_devices(ticker):
    # Given unit-a with five trainings, four of them borrowed, and nothing free below the limit
    place = places.article()
    services(place)
    seven_trainings(place, count=5, command=["fake", "ignores-term"], grace_s=5)
    ticker.settle()
    # When unit-c, which holds nothing of its 0.18, submits one
    place.submit("c-1", of="unit-c", gpu="0.09", command=["fake"])
    ticker.tick(seconds=1)
    # Then exactly one training is asked to go, and its place is kept for c-1
    going = [n for n, phase in place.phases().items() if phase == "stopping"]
    assert len(going) == 1
    assert models.Nomination.objects.get().workload == place.workloads["c-1"]
    assert place.phase("c-1") == "pending"
    ticker.settle(ticks=8)
    assert place.phase("c-1") == "running"
    assert place.phase(going[0]) == "pending"
    assert place.fresh(going[0]).submitted_at == START
    # And the victim's interval ends when its devices were free, where c-1's begins
    left = models.AllocationInterval.objects.get(workload=place.workloads[going[0]])
    came = models.AllocationInterval.objects.get(workload=place.workloads["c-1"])
    assert left.to_us is not None
    assert left.to_us <= came.from_us
    verbs = list(
        models.Decision.objects.filter(workload=place.workloads["c-1"])
        .order_by("id")
        .values_list("verb", flat=True)
    )
    assert verbs == ["reclaim", "place"]
    assert_sound()


def test_borrowing_interrupts_nobody(ticker):
    place = places.article()
    services(place)
    seven_trainings(place, count=4)
    ticker.settle()
    for number in (1, 2, 3):
        place.submit(f"b-{number}", of="unit-b", gpu="0.09", command=["fake"])
    ticker.settle()
    assert models.Decision.objects.filter(verb="reclaim").count() == 0
    assert [place.phase(f"b-{n}") for n in (1, 2, 3)] == ["running", "pending", "pending"]
    assert all(place.phase(f"train-{n}") == "running" for n in (1, 2, 3, 4))


def test_preemption_inside_a_project_and_resume_with_equal_values(ticker):
    # Given a project at limit = quota = 0.21 with a service of 0.12 and a training of 0.09
    place = places.card().department("dev", quota="1")
    place.project("p", of="dev", quota="0.21", over_quota=False)
    place.submit("first", of="p", gpu="0.12", kind=Kind.INFERENCE, command=["fake"])
    place.submit("train", of="p", gpu="0.09", command=["fake"])
    ticker.settle()
    mark = {"epoch": 21, "elapsed_s": "63.0", "best": "0.8223"}
    ticker.engine.mark_checkpoint(ticker.key(place.workloads["train"]), **mark)
    ticker.tick(seconds=1)
    # When a second service of 0.09 comes
    place.submit("second", of="p", gpu="0.09", kind=Kind.INFERENCE, command=["fake"])
    ticker.settle()
    # Then the training is preempted, and the first service is not touched
    assert place.phases() == {"first": "running", "train": "pending", "second": "running"}
    assert models.Decision.objects.filter(verb="preempt").count() == 1
    assert place.fresh("first").attempts == 1
    # When the second service is deleted, the training runs again from where it was
    workloads.delete_workload(
        workload_id=place.workloads["second"].pk, authority=SYSTEM, now=ticker.clock()
    )
    ticker.settle()
    ticker.engine.mark_resumed(ticker.key(place.workloads["train"]), **mark)
    ticker.settle()
    train = place.fresh("train")
    assert (train.phase, train.restart_count, train.attempts) == ("running", 1, 2)
    assert train.resumed["equal"] is True
    assert_sound()


def test_a_resume_that_lost_work_is_said(ticker):
    place = places.article()
    place.submit("train-1", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    key = ticker.key(place.workloads["train-1"])
    ticker.engine.mark_checkpoint(key, epoch=21, elapsed_s="63.0")
    ticker.tick(seconds=1)
    ticker.engine.kill(key)
    ticker.settle(ticks=8)
    key = ticker.key(place.workloads["train-1"])
    ticker.engine.mark_resumed(key, epoch=20, elapsed_s="60.0")
    ticker.tick(seconds=1)
    codes = set(
        models.WorkloadEvent.objects.filter(workload=place.workloads["train-1"]).values_list(
            "code", flat=True
        )
    )
    assert "resumed_with_loss" in codes


def test_a_workload_that_ends_by_itself_is_completed_and_gives_its_place_back(ticker):
    place = places.article()
    place.submit("short", of="unit-a", gpu="0.09", command=["fake", "after=5"])
    ticker.settle(ticks=8)
    assert place.phase("short") == "completed"
    assert models.Device.objects.get().allocated_mgpu == 0
    interval = models.AllocationInterval.objects.get()
    row = models.Replica.objects.get()
    assert interval.to_us == to_us(row.ended_at)
    assert_sound()


def test_a_failing_workload_pauses_without_gpu_and_gives_up(ticker):
    place = places.article()
    place.submit("bad", of="unit-a", gpu="0.09", command=["fake", "exit=3", "after=1"])
    ticker.settle(ticks=3)
    assert (place.phase("bad"), models.Device.objects.get().allocated_mgpu) == ("pending", 0)
    assert place.fresh("bad").reason_code == "BackingOff"
    ticker.settle(ticks=40)
    bad = place.fresh("bad")
    assert (bad.phase, bad.attempts, bad.exit_code) == ("failed", 3, 3)
    states = models.WorkloadEvent.objects.filter(workload=bad, code="failed_retrying").count()
    assert states == 2
    assert_sound()


def test_stop_ends_a_running_workload_and_holds_its_place_until_it_is_gone(ticker):
    place = places.article()
    place.submit("stubborn", of="unit-a", gpu="0.09", command=["fake", "ignores-term"], grace_s=10)
    ticker.settle()
    workloads.stop_workload(
        workload_id=place.workloads["stubborn"].pk, authority=SYSTEM, now=ticker.clock()
    )
    ticker.settle(ticks=5)
    assert place.phase("stubborn") == "stopping"
    assert models.Device.objects.get().allocated_mgpu == 90
    ticker.settle(ticks=8)
    assert place.phase("stubborn") == "stopped"
    assert models.Device.objects.get().allocated_mgpu == 0


def test_a_workload_deleted_while_no_tick_ran_is_ended_by_the_next(ticker):
    place = places.article()
    place.submit("gone", of="unit-a", gpu="0.50", command=["fake"])
    ticker.settle()
    workloads.delete_workload(
        workload_id=place.workloads["gone"].pk, authority=SYSTEM, now=ticker.clock()
    )
    ticker.settle()
    assert place.fresh("gone").deleted_at is not None
    assert models.Device.objects.get().allocated_mgpu == 0
    assert ticker.engine.observe() == ()
    assert_sound()


def test_a_replica_without_a_row_is_ended(ticker):
    place = places.article()
    place.submit("train-1", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    models.AllocationInterval.objects.all().delete()
    models.ReplicaDevice.objects.all().delete()
    models.Replica.objects.all().delete()
    models.Workload.objects.update(phase="stopped")
    ticker.settle()
    assert ticker.engine.observe() == ()


def test_an_engine_that_does_not_answer_is_not_an_engine_that_runs_nothing(ticker):
    place = places.article()
    place.submit("train-1", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    ticker.engine.is_reachable = False
    ticker.settle(ticks=5)
    assert place.phase("train-1") == "running"
    ticker.engine.is_reachable = True
    ticker.settle()
    assert (place.phase("train-1"), place.fresh("train-1").attempts) == ("running", 1)


def test_a_node_that_is_silent_for_too_long_gets_nothing_new_until_it_answers(ticker):
    # Given a node with work on it, whose engine has not answered for 31 s
    place = places.article()
    place.submit("train-1", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    ticker.engine.is_reachable = False
    ticker.settle(ticks=1, seconds=29)
    assert models.Node.objects.get().state == "ready"
    ticker.settle(ticks=1, seconds=2)
    assert models.Node.objects.get().state == "lost"
    # When something new comes, then it waits, and what runs there keeps its device
    place.submit("b-1", of="unit-b", gpu="0.09", command=["fake"])
    ticker.settle()
    assert place.fresh("b-1").reason_code == "NoMatchingNode"
    assert models.Device.objects.get().allocated_mgpu == 90
    # And when the node answers again, it starts
    ticker.engine.is_reachable = True
    ticker.settle()
    assert place.phases() == {"train-1": "running", "b-1": "running"}


def test_two_ticks_are_never_at_work_at_once(ticker):
    assert lease.take(owner="one", now=START)
    assert ticker.tick(owner="two") is None
    lease.give_back(owner="one")
    assert ticker.tick(owner="two") is not None


def test_the_lease_of_a_killed_tick_ends_by_itself(ticker):
    assert lease.take(owner="killed", now=START)
    assert ticker.tick(seconds=lease.LEASE_S - 1, owner="next") is None
    assert ticker.tick(seconds=2, owner="next") is not None


def test_a_plan_made_before_another_was_committed_is_thrown_away_whole(ticker):
    # Given two ticks that read the same state
    from scheduler.core import cycle
    from scheduler.queries import snapshots

    place = places.article()
    place.submit("train-1", of="unit-a", gpu="0.09", command=["fake"])
    cluster, (loaded,) = snapshots.load_pools()
    plan = cycle.decide(snapshot=loaded.snapshot, policy=loaded.policy, now_us=to_us(START))
    values = {"generation": cluster.generation, "now": START, "cycle": 1}
    # When both apply what they decided, then the second is refused and nothing is booked twice
    apply.apply_plan(loaded=loaded, plan=plan, **values)
    with pytest.raises(apply.PlanStale):
        apply.apply_plan(loaded=loaded, plan=plan, **values)
    assert models.Replica.objects.count() == 1
    assert models.Device.objects.get().allocated_mgpu == 90


def test_what_its_owner_stopped_meanwhile_is_left_out_alone(ticker):
    from scheduler.core import cycle
    from scheduler.queries import snapshots

    place = places.article()
    seven_trainings(place, count=2)
    cluster, (loaded,) = snapshots.load_pools()
    plan = cycle.decide(snapshot=loaded.snapshot, policy=loaded.policy, now_us=to_us(START))
    workloads.stop_workload(workload_id=place.workloads["train-1"].pk, authority=SYSTEM, now=START)
    applied = apply.apply_plan(
        loaded=loaded, plan=plan, generation=cluster.generation, now=START, cycle=1
    )
    assert applied.stale == [place.workloads["train-1"].pk]
    assert place.phases() == {"train-1": "stopped", "train-2": "starting"}


STEPS = [
    (observe, "gather"),
    (observe, "record"),
    (run, "_decide_and_apply"),
    (converge, "converge"),
    (converge, "_launch"),
    (apply, "_book"),
    (apply, "_evict"),
    (observe, "_end"),
    (settle, "settle_all"),
]


class Killed(BaseException):
    """The worker was killed."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("module", "name"), STEPS)
def test_a_worker_killed_at_any_step_loses_and_doubles_nothing(
    ticker, monkeypatch, module, name, when
):
    # Given the article's scene on its way to a reclaim
    place = places.article()
    services(place)
    seven_trainings(place)
    original = getattr(module, name)
    left = {"calls": 4}

    def killed(*args, **kwargs):
        left["calls"] -= 1
        if left["calls"]:
            return original(*args, **kwargs)
        if when == "after":
            original(*args, **kwargs)
        raise Killed

    monkeypatch.setattr(module, name, killed)
    # When the worker dies at the fourth call of this step, and ticks go on afterwards
    deaths = 0
    for round_ in range(12):
        if round_ == 4:
            place.submit("c-1", of="unit-c", gpu="0.09", command=["fake"])
        try:
            ticker.tick(seconds=20)
        except Killed:
            deaths += 1
            ticker.engine.advance(0.5)
    monkeypatch.setattr(module, name, original)
    ticker.settle()
    # Then everything stands where it would have stood without the death
    phases = place.phases()
    assert phases["c-1"] == "running"
    assert sorted(phases[f"train-{n}"] for n in range(1, 8)) == ["pending"] * 3 + ["running"] * 4
    assert_sound()
    for workload in place.workloads.values():
        alive = models.Replica.objects.filter(workload=workload).exclude(phase="ended")
        assert alive.count() <= 1
    live = [o for o in ticker.engine.observe() if o.phase.value in ("starting", "running")]
    assert len(live) == sum(phase == "running" for phase in phases.values())
    assert_no_overlap()


def assert_no_overlap():
    """No device is held above itself at any instant of the ledger."""
    rows = list(models.AllocationInterval.objects.all())
    instants = sorted({r.from_us for r in rows})
    for at in instants:
        held = sum(r.mgpu for r in rows if r.from_us <= at and (r.to_us is None or at < r.to_us))
        assert held <= 1000
    assert all(r.to_us is None or r.to_us >= r.from_us for r in rows)


def test_what_a_pool_offers_is_recorded_over_time(ticker):
    place = places.article()
    ticker.settle()
    first = models.CapacityInterval.objects.get()
    assert (first.capacity_mgpu, first.to_us) == (1000, None)
    # When its device falls sick, the old figure ends where the new one begins
    models.Device.objects.filter(node__pool=place.pool).update(healthy=False)
    ticker.settle(ticks=2, seconds=31)
    old, new = models.CapacityInterval.objects.order_by("id")
    assert (new.capacity_mgpu, new.to_us) == (0, None)
    assert old.to_us == new.from_us


def test_consolidation_moves_real_work_to_make_one_hole(ticker):
    # Given two cards, each half held by a training that may be moved, in a pool that consolidates
    place = places.card(devices=2).department("d", quota="2").project("p", of="d", quota="2")
    models.NodePool.objects.update(spread=True, consolidation=True)
    place.submit("one", of="p", gpu="0.50", command=["fake", "ignores-term"], grace_s=3)
    place.submit("two", of="p", gpu="0.50", command=["fake", "ignores-term"], grace_s=3)
    ticker.settle()
    held = models.Device.objects.order_by("index").values_list("allocated_mgpu", flat=True)
    assert list(held) == [500, 500]
    # When a whole card is asked for
    place.submit("whole", of="p", gpu="1", command=["fake"])
    ticker.tick(seconds=1)
    # Then one of the two leaves, and both it and the newcomer have places kept for them
    assert sorted(place.phases().values()) == ["pending", "running", "stopping"]
    assert models.Nomination.objects.count() == 2
    ticker.settle(ticks=10)
    assert set(place.phases().values()) == {"running"}
    assert list(held.all()) in ([1000, 1000],)
    assert sorted(w.attempts for w in models.Workload.objects.all()) == [1, 1, 2]
    assert_sound()


def test_a_reclaim_is_told_before_its_victim_gets_the_signal(ticker, monkeypatch):
    # Given the card full of borrowed trainings
    place = places.article()
    services(place)
    seven_trainings(place)
    ticker.settle()
    heard = []
    stopping = models.Replica.objects.filter(phase="stopping")
    monkeypatch.setattr(
        events, "publish_changed", lambda **_: heard.append(("told", stopping.count()))
    )
    terminate = ticker.engine.terminate

    def end(key, **how):
        heard.append(("signal", stopping.count()))
        terminate(key, **how)

    monkeypatch.setattr(ticker.engine, "terminate", end)
    # When a queue below its guarantee asks
    place.submit("mine", of="unit-b", gpu="0.09", command=["fake"])
    ticker.tick(seconds=1)
    # Then whoever looks at the word that something changed finds the victim leaving, and only then
    # does its process hear of it
    first_signal = heard.index(("signal", 1))
    assert ("told", 1) in heard[:first_signal]
