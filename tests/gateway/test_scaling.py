"""The tick follows recorded demand: up by quota, down by draining, to zero and back; blind: nothing."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

from scheduler import events, models
from scheduler.core.autoscale import Bucket, Metric
from scheduler.core.vocabulary import Kind
from scheduler.operations import services, submissions, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import SubmitRefused
from scheduler.telemetry import demand
from tests.scheduler.places import article

SECOND = 1_000_000


class Load:
    """Says what a gateway would: for each second what was in flight, and what is now."""

    def __init__(self, ticker, workload):
        self.ticker = ticker
        self.workload = workload
        self.at_replicas = {}

    def pass_seconds(self, seconds, *, in_flight=0, waiting=0, told=True):
        for _ in range(seconds):
            self.second(in_flight, waiting, told=told)
        return self

    def second(self, in_flight, waiting, *, told):
        began_s = int(self.ticker.engine.now.timestamp())
        if told:
            level = in_flight + waiting
            bucket = Bucket(request_us=level * SECOND, arrived=level)
            self.write(in_flight, waiting, buckets=[(self.workload.pk, began_s, bucket)])
        self.ticker.tick(seconds=1)

    def write(self, in_flight, waiting, *, buckets=()):
        report = demand.Report(
            gateway_id="test|1|1",
            services={self.workload.pk: demand.Counts(in_flight=in_flight, waiting=waiting)},
            replicas=self.at_replicas,
            buckets=buckets,
            covered=[second for _, second, _ in buckets],
        )
        asyncio.run(_write(report, int(self.ticker.engine.now.timestamp())))

    def fresh(self):
        return models.Workload.objects.get(pk=self.workload.pk)

    def rows(self, *phases):
        found = models.Replica.objects.filter(workload=self.workload).order_by("pk")
        return list(found.filter(phase__in=phases) if phases else found.exclude(phase="ended"))

    def events(self, code):
        found = models.WorkloadEvent.objects.filter(workload=self.workload, code=code)
        return [event.params for event in found.order_by("id")]


async def _write(report, now_s):
    from django.conf import settings

    client = redis.asyncio.Redis.from_url(settings.REDIS_URL)
    await demand.write(client=client, report=report, now_s=now_s)
    await client.aclose()


@pytest.fixture
def serve(transactional_db, ticker):
    """Submit a service on the article's card and return its load."""
    events.client().flushdb()
    place = article()

    def submit(*, gpu_mgpu=50, of="prod-inference", low=0, high=3, ready=0, **scaling):
        scaling.setdefault("metric", Metric.CONCURRENCY)
        scaling.setdefault("threshold", 2)
        workload = services.submit_service(
            project_id=place.projects[of].pk,
            pool_id=place.pool.pk,
            submission=submissions.Submission(
                name="chat",
                kind=Kind.INFERENCE,
                command=["fake", f"ready={ready}"],
                request_mgpu=gpu_mgpu,
                min_replicas=low,
                max_replicas=high,
            ),
            scaling=services.Scaling(**scaling),
            authority=SYSTEM,
            now=ticker.engine.now,
        )
        return Load(ticker, workload)

    return submit


def test_one_to_three_under_load_and_back(serve):
    # Given the article's service: at least 1, at most 3, another one above 2 in flight
    chat = serve(low=1)
    chat.pass_seconds(10)
    assert len(chat.rows("running")) == 1
    # When four requests are in flight for a while
    chat.pass_seconds(12, in_flight=4)
    # Then three replicas answer, and the change is told with its reason
    assert (chat.fresh().desired_replicas, len(chat.rows("running"))) == (3, 3)
    assert chat.events("scaled")[-1]["to"] == 3
    assert chat.events("scaled")[-1]["target_milli"] == 1400
    # And when nobody asks any more, one stays
    chat.pass_seconds(90)
    assert (chat.fresh().desired_replicas, len(chat.rows())) == (1, 1)
    assert chat.fresh().phase == "running"
    series = list(models.ScalingPoint.objects.order_by("at").values_list("desired", "ready"))
    assert (3, 3) in series
    assert series[-1] == (1, 1)


def test_to_zero_and_back(serve):
    chat = serve(low=0, ready=5)
    chat.pass_seconds(8)
    assert len(chat.rows("running")) == 1
    # When nobody has asked for a window and the grace
    chat.pass_seconds(110)
    # Then there is none, and it waits for work without a reason
    workload = chat.fresh()
    assert (workload.desired_replicas, workload.phase, chat.rows()) == (0, "pending", [])
    assert workload.reason_code == ""
    # When a request is held, Then one starts at once and the cold start is measured
    chat.write(0, 1)
    chat.ticker.tick(seconds=0.1)
    assert len(chat.rows("starting")) == 1
    chat.pass_seconds(8, waiting=1)
    assert len(chat.rows("running")) == 1
    assert chat.events("cold_start") == [{"ms": pytest.approx(5000, abs=1500)}]


def test_without_recorded_demand_nothing_goes(serve):
    chat = serve(low=0)
    chat.pass_seconds(30, in_flight=4)
    assert len(chat.rows("running")) == 3
    # When no gateway says anything for two windows and more
    chat.pass_seconds(150, told=False)
    # Then all three still run
    assert len(chat.rows("running")) == 3


def test_beyond_the_guarantee_it_runs_with_what_it_has_and_says_so(serve):
    # Given a guarantee of 0.25 and replicas of 0.10 that are not preemptible
    chat = serve(low=1, gpu_mgpu=100)
    chat.pass_seconds(20, in_flight=4)
    # Then two run, three are wanted, and what is in the way of the third is said
    workload = chat.fresh()
    assert (workload.desired_replicas, len(chat.rows("running"))) == (3, 2)
    assert workload.phase == "running"
    assert workload.reason_code == "NonPreemptibleOverQuota"


def test_b20_the_replica_with_the_least_in_flight_goes_and_first_finishes(serve):
    # Given two replicas, the newer one in the middle of a long answer
    chat = serve(low=1, high=2)
    chat.pass_seconds(70, in_flight=2)
    older, newer = chat.rows("running")
    chat.at_replicas = {older.pk: 1, newer.pk: 2}
    # When the load ends but for those
    chat.pass_seconds(75)
    service = models.InferenceService.objects.get()
    # Then the older one is to go; it gets nothing new and is not asked to end while it works
    assert list(service.draining) == [str(older.pk)]
    assert len(chat.rows("running")) == 2
    # And it ends when its last request is over
    chat.at_replicas = {newer.pk: 2}
    chat.pass_seconds(4)
    assert [row.pk for row in chat.rows()] == [newer.pk]
    ended = models.Replica.objects.get(pk=older.pk)
    assert (ended.phase, ended.stop_code) == ("ended", "scale_down")


def test_b20_a_drain_is_bounded(serve):
    chat = serve(low=1, high=2, drain_s=20)
    chat.pass_seconds(70, in_flight=2)
    chat.at_replicas = {row.pk: 1 for row in chat.rows()}
    chat.pass_seconds(110)
    assert len(chat.rows()) == 1


def test_b20_a_replica_that_drains_is_taken_back_by_a_new_request(serve):
    chat = serve(low=0, high=1, threshold=100)
    chat.pass_seconds(5)
    (only,) = chat.rows("running")
    # Given it is about to go to zero, in the middle of its last answer
    chat.at_replicas = {only.pk: 1}
    chat.pass_seconds(120)
    assert list(models.InferenceService.objects.get().draining) == [str(only.pk)]
    # When a request arrives
    chat.pass_seconds(2, waiting=1)
    # Then it serves on; nothing was stopped and nothing started
    assert models.InferenceService.objects.get().draining == {}
    assert [row.pk for row in models.Replica.objects.all()] == [only.pk]
    assert only.phase == "running"


def test_b17_a_service_that_loads_for_long_is_started_once(serve):
    # Given a limit of 30 s in all, and a model that loads for 57 s
    chat = serve(low=0, ready=57, initial_replicas=0, stable_window_s=20, zero_grace_s=10)
    chat.pass_seconds(30)
    assert chat.rows() == []
    # When a caller waits for ten seconds and gives up
    chat.pass_seconds(10, waiting=1)
    chat.pass_seconds(46)
    # Then it is not taken away while it loads
    assert len(chat.rows()) == 1
    chat.pass_seconds(12)
    assert len(chat.rows("running")) == 1
    # And goes after its window and grace; there was one start in all
    chat.pass_seconds(40)
    assert chat.rows() == []
    assert models.Replica.objects.count() == 1


def test_b17_a_caller_that_waits_is_answered_after_the_one_start(serve):
    # Given a limit of 30 s in all, and a model that loads for 57 s
    chat = serve(low=0, ready=57, initial_replicas=0, stable_window_s=20, zero_grace_s=10)
    chat.pass_seconds(30)
    assert chat.rows() == []
    # When one request comes and its caller waits for up to 120 s
    waited_s = 0
    while not chat.rows("running"):
        chat.pass_seconds(1, waiting=1)
        waited_s += 1
        assert waited_s <= 120
    # Then the replica is ready at about 57 s, by the one start
    assert 55 <= waited_s <= 62
    assert models.Replica.objects.count() == 1
    # And its idle clock begins there, or at the end of the last request
    chat.pass_seconds(10, in_flight=1)
    chat.pass_seconds(25)
    assert len(chat.rows("running")) == 1
    chat.pass_seconds(15)
    assert chat.rows() == []
    assert models.Replica.objects.count() == 1


def test_b18_a_burst_at_zero_starts_as_many_as_may_be_and_no_more(serve):
    # Given a service at zero, with two replicas at most
    chat = serve(low=0, high=2, ready=5, initial_replicas=0)
    chat.pass_seconds(10)
    assert chat.rows() == []
    # When eight requests come within a second and wait for it
    chat.pass_seconds(15, waiting=8)
    # Then there were one or two starts, not eight
    assert len(chat.rows("running")) == 2
    assert models.Replica.objects.count() == 2


def test_b16_what_a_dead_gateway_had_in_hand_keeps_no_replica(serve):
    # Given one of two gateways says that a request is in flight, and dies
    chat = serve(low=0)
    chat.pass_seconds(10)
    now_s = int(chat.ticker.engine.now.timestamp())
    asyncio.run(_write(_dead_with_one_in_flight(chat), now_s))
    told = demand.read(
        client=events.client(), workload_ids=[chat.workload.pk], window_s=60, now_s=now_s
    )
    assert told.services[chat.workload.pk].in_flight == 1
    # When its lease has ended, as Redis ends it, and the other one goes on with nothing in flight
    events.client().delete(demand.lease_key("dead|1|1"))
    chat.pass_seconds(110)
    # Then the service is at zero
    assert chat.rows() == []
    assert chat.fresh().desired_replicas == 0


def _dead_with_one_in_flight(load):
    counts = demand.Counts(in_flight=1)
    return demand.Report(gateway_id="dead|1|1", services={load.workload.pk: counts}, replicas={})


def test_b19_after_three_failed_starts_it_has_failed_and_stops_trying(serve):
    # Given a replica that can never come up
    chat = serve(low=1)
    models.Workload.objects.filter(pk=chat.workload.pk).update(
        command=["fake", "exit=1", "after=1", "ready=9"]
    )
    chat.pass_seconds(120, waiting=1)
    assert chat.fresh().phase == "failed"
    assert models.Replica.objects.count() == 3


def test_a_second_look_in_the_same_instant_changes_nothing(serve):
    from scheduler.tick import autoscale

    chat = serve(low=1)
    chat.pass_seconds(12, in_flight=4)
    before = models.Decision.objects.filter(verb="scale").count()
    now = chat.ticker.engine.now
    assert autoscale.scale_services(now=now) is False
    assert models.Decision.objects.filter(verb="scale").count() == before


def test_a_service_that_came_as_a_plain_workload_is_served_alike(serve, ticker):
    serve(low=1)
    project = models.Project.objects.get(name="dev-chat")
    plain = workloads.submit_workload(
        project_id=project.pk,
        pool_id=models.NodePool.objects.get().pk,
        submission=submissions.Submission(
            name="plain", kind=Kind.INFERENCE, command=["fake"], request_mgpu=10
        ),
        authority=SYSTEM,
        now=ticker.engine.now,
    )
    ticker.settle(ticks=4)
    assert models.ScalingPoint.objects.filter(workload=plain, desired=1, ready=1).exists()


PROBLEMS = [
    ("no metric although it scales", {"metric": None, "low": 1}, "metric_needed"),
    ("latency to zero", {"metric": Metric.LATENCY, "low": 0}, "metric_without_zero"),
    (
        "a custom number without a name",
        {"metric": Metric.CUSTOM, "low": 1},
        "bad_gauge",
    ),
    ("a window too short", {"stable_window_s": 5}, "out_of_range"),
    ("no model name", {"model_names": ("bad name",)}, "bad_model_name"),
]


@pytest.mark.parametrize(("name", "asked", "code"), PROBLEMS, ids=[row[0] for row in PROBLEMS])
def test_what_cannot_be_is_refused_with_the_way_out(serve, name, asked, code):
    with pytest.raises(SubmitRefused) as refused:
        serve(**asked)
    assert [problem.code for problem in refused.value.problems] == [code]
    assert models.Workload.objects.count() == 0
