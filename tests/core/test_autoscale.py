"""The autoscaler: tables, an hour of simulated load against Knative's own terms, zero and back."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from scheduler.core.autoscale import Bucket, Cause, History, Memory, Metric, Parameters, decide
from tests.core.knative import Knative

SECOND = 1_000_000
CHAT = Parameters(
    min_replicas=1, max_replicas=3, metric=Metric.CONCURRENCY, threshold=2, initial_replicas=1
)
#: What one replica is to carry: 70 % of two requests in flight.
TARGET = 1.4


class Simulation:
    """A service under a load that is told second by second; replicas answer after ``start_s``."""

    def __init__(self, parameters, *, start_s=0, ready=1):
        self.parameters = parameters
        self.start_s = start_s
        self.now_s = 1_000
        self.memory = Memory()
        self.buckets = {}
        self.covered = set()
        self.loads = []
        self.desired = ready
        self.ready = ready
        self.starting_until = []
        self.starts = 0
        self.series = []
        self.verdict = decide(
            history=History(), parameters=parameters, memory=Memory(), now_us=self.now_s * SECOND
        )
        if ready < 2:
            self.memory = self.verdict.memory

    def second(self, load, *, covered=True, requests=0, waiting=0):
        """Let one second pass at ``load`` requests in flight; evaluate on every other one."""
        if covered:
            self.covered.add(self.now_s)
            self.buckets[self.now_s] = Bucket(
                request_us=round(load * SECOND), arrived=requests, finished=requests
            )
        self.loads.append(load)
        self.now_s += 1
        done = [at for at in self.starting_until if at <= self.now_s]
        self.starting_until = [at for at in self.starting_until if at > self.now_s]
        self.ready += len(done)
        if self.now_s % 2 == 0:
            self.evaluate(in_flight=math.ceil(load) - waiting, waiting=waiting)
        self.series.append(self.desired)

    def evaluate(self, *, in_flight=0, waiting=0):
        history = History(
            buckets=self.buckets,
            covered=frozenset(self.covered),
            in_flight=max(0, in_flight),
            waiting=waiting,
            ready=self.ready,
            starting=len(self.starting_until),
            desired=self.desired,
        )
        self.verdict = decide(
            history=history,
            parameters=self.parameters,
            memory=self.memory,
            now_us=self.now_s * SECOND,
        )
        self.memory = self.verdict.memory
        self._carry_out(self.verdict.desired)

    def _carry_out(self, desired):
        self.desired = desired
        alive = self.ready + len(self.starting_until)
        for _ in range(desired - alive):
            self.starts += 1
            if self.start_s:
                self.starting_until.append(self.now_s + self.start_s)
            else:
                self.ready += 1
        surplus = max(0, alive - desired)
        cut = min(surplus, len(self.starting_until))
        self.starting_until = self.starting_until[: len(self.starting_until) - cut]
        self.ready -= surplus - cut

    def run(self, loads):
        for load in loads:
            self.second(load)
        return self


def changes(series):
    return [(a, b) for a, b in pairwise(series) if a != b]


# --- One decision ---------------------------------------------------------------------------------

STEPS = [
    # a steady load over a whole window ...    load  ready  wanted
    ("nothing in flight keeps the minimum", 0, 1, 1),
    ("just at the target of one", 1.4, 1, 1),
    ("a hair above the target of one", 1.4001, 1, 2),
    ("four in flight at a target of 1.4", 4, 1, 3),
    ("more than the maximum carries", 40, 1, 3),
    ("down by at most a half", 0, 3, 1),
]


@pytest.mark.parametrize(("name", "load", "ready", "wanted"), STEPS, ids=[s[0] for s in STEPS])
def test_one_decision(name, load, ready, wanted):
    covered = frozenset(range(940, 1000))
    history = History(
        buckets={second: Bucket(request_us=round(load * SECOND)) for second in covered},
        covered=covered,
        ready=ready,
        desired=ready,
    )
    known = Memory(began_s=0, initial_reached=True)
    verdict = decide(history=history, parameters=CHAT, memory=known, now_us=1000 * SECOND)
    assert verdict.desired == wanted


def test_four_parallel_requests_bring_three_replicas_within_the_panic_window():
    # Given the article's service: 1 to 3 replicas, another one above two requests in flight
    service = Simulation(CHAT).run([0] * 120)
    assert service.desired == 1
    # When four requests are in flight for the six seconds of the panic window
    service.run([4] * 6)
    # Then three replicas are wanted, in panic
    assert service.desired == 3
    assert service.verdict.panicking
    assert service.verdict.target_milli == 1400


def test_it_comes_back_no_earlier_than_a_stable_window_after_panic():
    service = Simulation(CHAT).run([0] * 60).run([4] * 30)
    assert service.desired == 3
    over_until = len(service.series)
    service.run([0] * 120)
    back = service.series.index(1, over_until) - over_until
    # Three are ready two seconds after the load came, so the last evaluation over the threshold was
    # then; the stable window holds load for a minute after the end of it.
    assert 30 <= back <= 62
    assert service.series[-1] == 1


def test_a_step_down_is_at_most_a_half():
    wide = replace(CHAT, max_replicas=64, initial_replicas=1)
    service = Simulation(wide).run([0] * 60).run([60] * 200)
    assert service.desired == math.ceil(60 / TARGET)
    service.run([0] * 300)
    for before, after in changes(service.series[260:]):
        assert after >= before // 2


# --- Against Knative's own terms, an hour each ----------------------------------------------------


def step(rng):
    return [0] * 600 + [4] * 1200 + [1] * 600 + [9] * 600 + [0] * 600


def ramp(rng):
    return [min(i, 3600 - i) / 60 for i in range(3600)]


def noise(rng):
    return [max(0.0, rng.gauss(2.2, 1.0)) for _ in range(3600)]


def bursts(rng):
    return [rng.choice([0, 0, 0, 30]) if i % 90 < 6 else 0.3 for i in range(3600)]


@pytest.mark.parametrize("shape", [step, ramp, noise, bursts])
@pytest.mark.parametrize("activation", [1, 4])
def test_an_hour_agrees_with_knative_to_the_replica(shape, activation):
    loads = [round(load, 6) for load in shape(random.Random(7))]
    wide = replace(
        CHAT, min_replicas=0, max_replicas=10_000, activation_replicas=activation, zero_grace_s=0
    )
    ours = Simulation(wide, ready=1)
    theirs = Knative(target=Fraction(14, 10), activation=activation)
    for second, load in enumerate(loads):
        ready = ours.ready
        ours.second(load)
        if ours.now_s % 2:
            continue
        wanted = theirs.scale(
            loads=[Fraction(str(x)) for x in ours.loads[-60:]], now_s=ours.now_s, ready=ready
        )
        # Zero is the reconciler's affair: see the tests of zero.
        assert ours.desired == max(wanted, 1 if ours.verdict.cause is not Cause.IDLE else 0), second


# --- No flapping ----------------------------------------------------------------------------------


def test_b15_a_mean_just_above_the_target_goes_up_once_and_stays():
    # Given a mean of 2.2 in flight, read as 1.6 and 2.8 in turn every five seconds
    swings = ([1.6] * 5 + [2.8] * 5) * 60
    # When ten minutes pass, Then there is one change, 1 to 2
    assert changes(Simulation(CHAT).run(swings).series) == [(1, 2)]


def test_b15_slow_traffic_never_falls_to_zero():
    # Given one request of 50 ms a second, a minimum of 0 and a window of 60 s
    zero = replace(CHAT, min_replicas=0, zero_grace_s=0)
    service = Simulation(zero).run([0.05] * 600)
    assert set(service.series) == {1}


@pytest.mark.parametrize("mean", [0.5, 2.1, 3.5])
def test_a_steady_load_with_noise_gives_a_steady_number_for_an_hour(mean):
    rng = random.Random(11)
    service = Simulation(CHAT).run([mean] * 120)
    settled = service.desired
    service.run([max(0.0, rng.gauss(mean, 0.3)) for _ in range(3600)])
    assert set(service.series[120:]) == {settled}
    assert settled == math.ceil(mean / TARGET)


def test_a_jump_is_bounded_by_the_maximum():
    service = Simulation(CHAT).run([0] * 60 + [5000] * 10)
    assert service.desired == 3


# --- Missing data ---------------------------------------------------------------------------------


def test_missing_data_never_scales_down():
    # Given three replicas under load
    service = Simulation(CHAT).run([4] * 120)
    assert service.desired == 3
    # When no gateway reports for ten minutes, Then nothing goes
    for _ in range(600):
        service.second(0, covered=False)
    assert service.desired == 3
    assert service.verdict.cause is Cause.BLIND
    # And when they report again and nothing is in flight, it goes after a whole known window
    service.run([0] * 58)
    assert service.desired == 3
    service.run([0] * 6)
    assert service.desired == 1


def test_load_is_followed_upwards_although_data_is_missing():
    service = Simulation(CHAT).run([0] * 60)
    for _ in range(30):
        service.second(0, covered=False)
    service.run([4] * 6)
    assert service.desired == 3


# --- Zero -----------------------------------------------------------------------------------------

ZERO = replace(CHAT, min_replicas=0, initial_replicas=0, zero_grace_s=30)


def test_the_last_replica_goes_after_the_stable_window_and_the_grace():
    service = Simulation(ZERO).run([1] * 120)
    service.run([0] * 88)
    assert service.desired == 1
    service.run([0] * 6)
    assert service.desired == 0
    assert service.verdict.cause is Cause.IDLE


def test_retention_longer_than_the_grace_is_waited_for():
    service = Simulation(replace(ZERO, zero_retention_s=100)).run([1] * 120).run([0] * 150)
    assert service.desired == 1
    service.run([0] * 20)
    assert service.desired == 0


def test_a_request_at_zero_wakes_it_at_once():
    service = Simulation(ZERO, ready=0)
    service.run([0] * 100)
    assert service.desired == 0
    service.evaluate(waiting=1)
    assert (service.desired, service.verdict.cause) == (1, Cause.ACTIVATION)


def test_activation_replicas_start_together():
    service = Simulation(replace(ZERO, activation_replicas=2), ready=0).run([0] * 10)
    service.evaluate(waiting=1)
    assert service.desired == 2


def test_b17_a_service_that_loads_for_long_is_started_once():
    # Given an idle limit of 30 s in all, a load of 57 s, and no replica
    quick = replace(ZERO, stable_window_s=20, zero_grace_s=10)
    service = Simulation(quick, start_s=57, ready=0).run([0] * 100)
    # When one request waits for ten seconds and then gives up
    for _ in range(10):
        service.second(1, waiting=1)
    service.run([0] * 47)
    # Then the replica is not taken away while it loads, lives for 30 s from ready, and goes
    assert service.desired == 1
    service.run([0] * 24)
    assert service.ready == 1
    service.run([0] * 12)
    assert (service.desired, service.starts) == (0, 1)
    service.run([0] * 300)
    assert service.starts == 1


def test_initial_replicas_hold_until_first_reached():
    service = Simulation(replace(CHAT, initial_replicas=3), start_s=10, ready=0).run([0] * 9)
    assert service.desired == 3
    service.run([0] * 70)
    assert service.desired == 1


def test_pure_activity_needs_no_metric():
    activity = Parameters(min_replicas=0, max_replicas=1, initial_replicas=0)
    service = Simulation(activity, ready=0)
    service.run([0] * 10)
    assert service.desired == 0
    service.run([0.2] * 4)
    assert service.desired == 1


# --- Other metrics --------------------------------------------------------------------------------


def test_throughput_counts_requests_a_second():
    # Given 20 requests a second for each replica, of which 70 % is the target
    parameters = replace(CHAT, metric=Metric.THROUGHPUT, threshold=20)
    service = Simulation(parameters)
    for _ in range(90):
        service.second(0.1, requests=28)
    assert service.desired == 2


def buckets_with(count, **values):
    return {second: Bucket(**values) for second in range(1000 - count, 1000)}


VALUES = [
    # metric            one second's bucket                        ready  wanted
    (Metric.LATENCY, {"finished": 10, "latency_us": 8_000_000}, 1, 2),
    (Metric.LATENCY, {"finished": 10, "latency_us": 5_400_000}, 2, 2),
    (Metric.LATENCY, {"finished": 10, "latency_us": 12_000_000}, 2, 3),
    (Metric.CUSTOM, {"gauge_milli": 900_000, "gauges": 1}, 1, 2),
    (Metric.CUSTOM, {"gauge_milli": 500_000, "gauges": 1}, 1, 1),
]


@pytest.mark.parametrize(("metric", "bucket", "ready", "wanted"), VALUES)
def test_latency_and_custom_numbers(metric, bucket, ready, wanted):
    # Given a threshold of 500 milliseconds, or of 500 of whatever the replicas show
    parameters = replace(CHAT, metric=metric, threshold=500)
    history = History(
        buckets=buckets_with(60, **bucket),
        covered=frozenset(range(940, 1000)),
        ready=ready,
        desired=ready,
    )
    known = Memory(began_s=0, initial_reached=True)
    verdict = decide(history=history, parameters=parameters, memory=known, now_us=1000 * SECOND)
    assert verdict.desired == wanted


def test_latency_never_goes_to_zero():
    parameters = replace(ZERO, metric=Metric.LATENCY, threshold=500)
    service = Simulation(parameters).run([0] * 600)
    assert service.desired == 1


def test_a_fresh_autoscaler_with_several_replicas_takes_none_away_for_a_window():
    service = Simulation(CHAT, ready=3).run([0] * 60)
    assert service.desired == 3
    service.run([0] * 6)
    assert service.desired == 1


def test_the_scale_down_delay_holds_the_most_that_was_wanted():
    delayed = replace(CHAT, scale_down_delay_s=120)
    service = Simulation(delayed).run([4] * 120).run([0] * 130)
    assert service.desired == 3
    service.run([0] * 35)
    assert service.desired == 1
