"""The idle rule by itself: windows and not averages, unknown is not idle, inference has none."""

from __future__ import annotations

import pytest

from scheduler.core import idle
from scheduler.core.idle import Limits, Reading, RuleKind, Verdict, Watched
from scheduler.core.vocabulary import Kind

MINUTE = 60_000_000
HALF_HOUR = Limits(idle_limit_s=30 * 60)
#: Readings come each minute here; one that is missing makes the time unknown.
GAP = 90_000_000
NOTHING = Reading(idle=None, idle_since_us=None, read_at_us=None)


class Watch:
    """Readings of one workload, a minute apart, and what the rule says after each."""

    def __init__(self, limits=HALF_HOUR, devices=1):
        self.limits = limits
        self.readings = [NOTHING] * devices
        self.minute = 0
        self.kept_at_us = None
        self.warned = 0
        self.said = []

    def read(self, *loads, minutes=1):
        """A load in percent for each device; None: it could not be read."""
        for _ in range(minutes):
            self.minute += 1
            at = self.minute * MINUTE
            for index, load in enumerate(loads):
                if load is None:
                    continue
                before = self.readings[index]
                since = idle.since_after(before=before, idle=load < 1, at_us=at, longest_gap_us=GAP)
                self.readings[index] = Reading(idle=load < 1, idle_since_us=since, read_at_us=at)
            found = self.judge()
            if found.verdict is Verdict.WARN:
                self.warned = found.percent
            if found.verdict is not Verdict.NOTHING:
                self.said.append((self.minute, found.verdict, found.percent))
        return self

    def judge(self):
        watched = Watched(
            limits=self.limits,
            readings=self.readings,
            running_since_us=0,
            kept_at_us=self.kept_at_us,
            warned_percent=self.warned,
        )
        return idle.judge(watched=watched, now_us=self.minute * MINUTE)

    def stopped_at(self):
        return next((minute for minute, verdict, _ in self.said if "stop" in verdict), None)


def test_b23_a_job_that_computed_once_at_the_beginning_is_found_by_its_window():
    # Given 10 minutes at 90 %, then nothing
    watch = Watch().read(90, minutes=10).read(0, minutes=60)
    # Then it stops half an hour after its last activity, having been warned at 50 and 90 %
    assert watch.stopped_at() == 41
    assert watch.said[:2] == [(26, Verdict.WARN, 50), (38, Verdict.WARN, 90)]


def test_b23_loading_data_for_25_minutes_is_not_stopped():
    watch = Watch().read(0, minutes=25).read(80, minutes=60)
    assert watch.stopped_at() is None


def test_b23_of_two_devices_one_that_is_busy_keeps_the_workload():
    assert Watch(devices=2).read(90, 0, minutes=90).stopped_at() is None
    assert Watch(devices=2).read(0, 0, minutes=40).stopped_at() == 31


def test_b23_a_spike_above_the_threshold_begins_the_clock_anew():
    watch = Watch()
    for _ in range(6):
        watch.read(0, minutes=19).read(3)
    assert watch.stopped_at() is None


@pytest.mark.parametrize("minutes", [1, 40])
def test_b21_what_can_not_be_read_is_not_idle_and_the_clock_begins_anew_when_it_can(minutes):
    # Given 25 idle minutes, then readings are missing
    watch = Watch().read(0, minutes=25).read(None, minutes=1 + minutes)
    assert watch.judge().idle_s is None
    assert watch.stopped_at() is None
    # When they return, then half an hour counts from there
    back = watch.minute + 1
    watch.read(0, minutes=40)
    assert watch.stopped_at() == back + 30


def test_b21_a_workload_that_never_gave_a_reading_is_never_stopped():
    assert Watch().read(None, minutes=600).said == []


def test_b22_of_two_on_one_card_only_the_one_that_does_nothing_is_stopped():
    # Given readings by process: a training at full speed beside a workspace that does nothing
    training, workspace = Watch(), Watch()
    training.read(100, minutes=31)
    workspace.read(0, minutes=31)
    assert (training.stopped_at(), workspace.stopped_at()) == (None, 31)
    # With only the card's figure both are unknown, and nobody is stopped
    assert Watch().read(None, minutes=31).stopped_at() is None


def test_keep_sets_the_clock_back_and_counts_once_in_half_an_hour():
    watch = Watch().read(0, minutes=28)
    watch.kept_at_us = watch.minute * MINUTE
    watch.warned = 0
    watch.read(0, minutes=29)
    assert watch.stopped_at() is None
    watch.read(0)
    assert watch.stopped_at() == 58
    kept = 28 * MINUTE
    assert not idle.may_keep_again(kept_at_us=kept, now_us=kept + 29 * MINUTE)
    assert idle.may_keep_again(kept_at_us=kept, now_us=kept + 30 * MINUTE)


def test_b23_a_restart_begins_a_new_window():
    reading = Reading(idle=True, idle_since_us=0, read_at_us=40 * MINUTE)
    watched = Watched(limits=HALF_HOUR, readings=[reading], running_since_us=39 * MINUTE)
    assert idle.judge(watched=watched, now_us=40 * MINUTE).idle_s == 60


def test_running_time_ends_work_whatever_it_does():
    watched = Watched(
        limits=Limits(runtime_limit_s=3600),
        readings=[Reading(idle=False, idle_since_us=None, read_at_us=0)],
        running_since_us=0,
        ran_s=3600,
    )
    assert idle.judge(watched=watched, now_us=0).verdict is Verdict.STOP_RUNTIME


@pytest.mark.parametrize(
    ("kind", "preemptible", "rule"),
    [
        (Kind.TRAINING, True, RuleKind.TRAINING),
        (Kind.DISTRIBUTED, False, RuleKind.TRAINING),
        (Kind.WORKSPACE, True, RuleKind.PREEMPTIBLE_WORKSPACE),
        (Kind.WORKSPACE, False, RuleKind.NON_PREEMPTIBLE_WORKSPACE),
        (Kind.INFERENCE, False, None),
        (Kind.INFERENCE, True, None),
    ],
)
def test_each_kind_has_its_rule_and_inference_none(kind, preemptible, rule):
    assert idle.rule_kind(kind=kind, preemptible=preemptible) is rule


def test_the_tighter_of_department_and_project_counts():
    outer = Limits(idle_limit_s=600, owner_may_keep=False)
    inner = Limits(idle_limit_s=300, runtime_limit_s=900)
    assert idle.tighten(outer=outer, inner=inner) == Limits(
        idle_limit_s=300, runtime_limit_s=900, owner_may_keep=False
    )
    assert idle.tighten(outer=None, inner=None).idle_limit_s is None
