"""Idle governance over the tick: warned, kept, stopped, given back; never a service."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler import models
from scheduler.core.idle import Limits
from scheduler.core.vocabulary import Kind
from scheduler.operations import idle, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import StateRefused
from scheduler.telemetry.base import ReplicaSample
from scheduler.tick import sample
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db


def rule(place, kind, *, of="dev-test", seconds=60, runtime=None, owner=True):
    return idle.set_policy(
        place=idle.Place(department_id=place.departments[of].pk),
        kind=kind,
        limits=Limits(idle_limit_s=seconds, runtime_limit_s=runtime, owner_may_keep=owner),
        authority=SYSTEM,
        now=START,
    )


def watch(ticker, *, seconds, load=0, every=2):
    """Let time pass with readings of ``load`` thousandths; None: nothing can be read."""
    for _ in range(seconds // every):
        ticker.engine.advance(every)
        replicas = models.Replica.objects.filter(phase="running").select_related("workload")
        sample.record_samples(
            samples=[
                (
                    replica,
                    ReplicaSample(
                        replica_id=replica.pk,
                        attempt=replica.attempt,
                        sampled_at=ticker.clock(),
                        utilization_permille=load,
                        demand_permille=load,
                        memory_mib=None,
                    ),
                )
                for replica in replicas
            ]
        )
        ticker.tick()


def events(name, place):
    rows = models.WorkloadEvent.objects.filter(workload=place.workloads[name]).order_by("id")
    return [row.code for row in rows]


@pytest.mark.parametrize(
    ("rule_kind", "kind", "preemptible"),
    [
        ("training", Kind.TRAINING, None),
        ("preemptible_workspace", Kind.WORKSPACE, True),
        ("non_preemptible_workspace", Kind.WORKSPACE, None),
    ],
)
def test_each_of_the_three_kinds_is_warned_stopped_and_gives_its_device_back(
    ticker, rule_kind, kind, preemptible
):
    # Given a rule of 60 s and work that does nothing from the start
    place = places.article()
    rule(place, rule_kind)
    place.submit(
        "quiet", of="unit-c", gpu="0.18", kind=kind, preemptible=preemptible, command=["fake"]
    )
    models.Workload.objects.update(submitted_by="ann")
    ticker.settle()
    assert place.phase("quiet") == "running"
    # When half and nine tenths of it have passed, then its owner is told twice
    watch(ticker, seconds=58)
    assert events("quiet", place).count("idle_warned") == 2
    told = models.Notification.objects.filter(username="ann").exclude(code="work_running")
    codes = told.order_by("id").values_list("code", flat=True)
    assert list(codes) == ["idle_warned", "idle_warned"]
    # When all of it has passed, then it is stopped with the rule in the event, and can be resumed
    watch(ticker, seconds=8)
    ticker.settle(seconds=1)
    assert place.phase("quiet") == "stopped"
    stop = models.WorkloadEvent.objects.get(code="idle_stop")
    assert stop.params["limit_s"] == 60
    assert models.Device.objects.get().allocated_mgpu == 0
    assert models.Decision.objects.filter(verb="idle_stop").count() == 1
    workloads.start_workload(workload_id=place.workloads["quiet"].pk, authority=SYSTEM, now=START)
    ticker.settle()
    assert place.phase("quiet") == "running"


def test_activity_and_missing_readings_are_not_idle(ticker):
    place = places.article()
    rule(place, "training")
    place.submit("busy", of="unit-c", gpu="0.18", command=["fake"])
    ticker.settle()
    watch(ticker, seconds=50)
    watch(ticker, seconds=2, load=500)
    watch(ticker, seconds=50)
    watch(ticker, seconds=100, load=None)
    assert place.phase("busy") == "running"


def test_a_service_has_no_rule_and_is_told_why(ticker):
    place = places.article()
    for kind in ("training", "preemptible_workspace", "non_preemptible_workspace"):
        rule(place, kind, seconds=10)
    with pytest.raises(idle.PolicyRefused, match="scale to zero"):
        rule(place, "inference")
    place.submit("chat", of="dev-chat", gpu="0.20", kind=Kind.INFERENCE, command=["fake"])
    ticker.settle()
    assert place.fresh("chat").idle_limit_s is None
    watch(ticker, seconds=120)
    assert place.phase("chat") == "running"


def test_the_rule_is_that_of_the_time_of_submission(ticker):
    place = places.article()
    place.submit("before", of="unit-c", gpu="0.09", command=["fake"])
    rule(place, "training", seconds=600)
    place.submit("after", of="unit-c", gpu="0.09", command=["fake"])
    rule(place, "training", seconds=30)
    assert [place.fresh(name).idle_limit_s for name in ("before", "after")] == [None, 600]


def test_a_project_may_only_tighten():
    place = places.article()
    rule(place, "training", seconds=600)
    project = idle.Place(project_id=place.projects["unit-a"].pk)

    def set_to(seconds):
        return idle.set_policy(
            place=project,
            kind="training",
            limits=Limits(idle_limit_s=seconds),
            authority=SYSTEM,
            now=START,
        )

    with pytest.raises(idle.PolicyRefused, match="allows 600 s"):
        set_to(900)
    set_to(300)
    place.submit("tight", of="unit-a", gpu="0.09")
    assert place.fresh("tight").idle_limit_s == 300
    # And where the department tightens later, the tighter counts
    rule(place, "training", seconds=120)
    place.submit("tighter", of="unit-b", gpu="0.09")
    place.submit("tightest", of="unit-a", gpu="0.05")
    assert place.fresh("tighter").idle_limit_s == 120
    assert place.fresh("tightest").idle_limit_s == 120


def test_keep_sets_the_clock_back_once_in_half_an_hour_and_is_on_record(ticker):
    place = places.article()
    rule(place, "training")
    place.submit("quiet", of="unit-c", gpu="0.18", command=["fake"])
    ticker.settle()
    watch(ticker, seconds=50)
    quiet = place.workloads["quiet"].pk
    idle.keep_workload(workload_id=quiet, authority=SYSTEM, now=ticker.clock())
    watch(ticker, seconds=50)
    assert place.phase("quiet") == "running"
    with pytest.raises(StateRefused, match="less than 30 minutes"):
        idle.keep_workload(workload_id=quiet, authority=SYSTEM, now=ticker.clock())
    assert models.AuditEntry.objects.filter(action="workload.keep").count() == 1
    watch(ticker, seconds=20)
    ticker.settle()
    assert place.phase("quiet") == "stopped"


def test_a_time_limit_counts_running_time_over_interruptions(ticker):
    # Given a limit of 100 s running time, and a pause after 60
    place = places.article()
    rule(place, "training", seconds=None, runtime=100)
    place.submit("long", of="unit-c", gpu="0.18", command=["fake"])
    ticker.settle()
    watch(ticker, seconds=60, load=900)
    replica = models.Replica.objects.get(workload=place.workloads["long"], phase="running")
    models.Replica.objects.filter(pk=replica.pk).update(
        running_at=replica.running_at - timedelta(seconds=30)
    )
    # When 100 s are reached in all, then it is stopped, busy or not
    watch(ticker, seconds=20, load=900)
    ticker.settle()
    assert place.phase("long") == "stopped"
    assert "runtime_stop" in events("long", place)
