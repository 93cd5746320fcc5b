"""Alert rules on the tables: figures by scope, raised and ended by the tick, told, silenced."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module

import pytest
from django.apps import apps

from scheduler import models
from scheduler.core.alerts import Metric
from scheduler.core.vocabulary import Phase, ReplicaPhase
from scheduler.operations import alerts as operations
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import Refused
from scheduler.queries.alert_values import Figures
from scheduler.queries.alert_words import alert_in_words
from scheduler.queries.phrases import plain
from scheduler.tick import alerts
from tests.scheduler.places import START, article

pytestmark = pytest.mark.django_db


@pytest.fixture
def place():
    made = article()
    models.AlertRule.objects.all().delete()
    return made


def rule(metric, threshold, *, for_s=60, **scope):
    return operations.save_rule(
        rule_id=None,
        values=operations.RuleValues(
            name="a rule", metric=metric, threshold=threshold, for_s=for_s, **scope
        ),
        authority=SYSTEM,
        now=START,
    )


def minute(number):
    return START + timedelta(minutes=number)


def run(place, name, *, of, gpu, idle=None, sampled_at=START):
    """Let a workload hold its share, as if the tick had placed it."""
    workload = place.submit(name, of=of, gpu=gpu)
    models.Workload.objects.filter(pk=workload.pk).update(phase=Phase.RUNNING)
    models.Replica.objects.create(
        workload=workload,
        node=models.Node.objects.get(),
        phase=ReplicaPhase.RUNNING,
        mgpu=workload.request_mgpu,
        booked_at=START,
        idle=idle,
        sampled_at=sampled_at,
    )
    return workload


def test_a_guarantee_that_is_asked_for_and_not_given(place):
    # Given unit-c, guaranteed 0.18, holds 0.09 and two of 0.09 wait
    run(place, "c-1", of="unit-c", gpu="0.09")
    place.submit("c-2", of="unit-c", gpu="0.09")
    place.submit("c-3", of="unit-c", gpu="0.09")
    figures = Figures(now=START)
    everywhere = figures.value(Metric.UNMET_GUARANTEE_MGPU, (None, None, None))
    elsewhere = figures.value(
        Metric.UNMET_GUARANTEE_MGPU, (place.departments["prod"].pk, None, None)
    )
    assert (everywhere, elsewhere) == (90, 0)


def test_what_is_idle_counts_only_where_it_is_read(place):
    figures = Figures(now=START)
    assert figures.value(Metric.IDLE_SHARE_PERMILLE, (None, None, None)) is None
    run(place, "a-1", of="unit-a", gpu="0.30", idle=True)
    run(place, "a-2", of="unit-a", gpu="0.10", idle=False)
    run(place, "a-3", of="unit-a", gpu="0.20", idle=True, sampled_at=START - timedelta(hours=1))
    figures = Figures(now=START)
    assert figures.value(Metric.IDLE_SHARE_PERMILLE, (None, None, None)) == 750


def test_what_can_not_be_watched_is_told_and_is_neither_idle_nor_busy(place):
    """B21: unsupported, missing and fresh readings; the operator learns that two can't be watched."""
    # Given a card that reads nothing, a collector that is down since an hour, and one that is read
    run(place, "a-1", of="unit-a", gpu="0.30", idle=None, sampled_at=None)
    run(place, "b-1", of="unit-b", gpu="0.10", idle=True, sampled_at=START - timedelta(hours=1))
    read = run(place, "c-1", of="unit-c", gpu="0.09", idle=False)
    made = rule(Metric.UNWATCHED_WORKLOADS, 0, for_s=120)
    unit_a = (None, place.projects["unit-a"].pk, None)

    # When they have just begun, then a first reading may still come
    assert Figures(now=START).value(Metric.UNWATCHED_WORKLOADS, (None, None, None)) == 0
    # When minutes pass, then two are unknown, and the idle share is that of the third alone
    for number in range(3, 7):
        models.Replica.objects.filter(workload=read).update(sampled_at=minute(number))
        alerts.evaluate(now=minute(number))
    figures = Figures(now=minute(6))
    assert figures.value(Metric.UNWATCHED_WORKLOADS, (None, None, None)) == 2
    assert figures.value(Metric.UNWATCHED_WORKLOADS, unit_a) == 1
    assert figures.value(Metric.IDLE_SHARE_PERMILLE, (None, None, None)) == 0
    # Then system admins are told, with the number
    assert [(each.value, each.raised_at) for each in made.alerts.all()] == [(2, minute(5))]
    told = models.Announcement.objects.get(code="alert_raised")
    assert (told.audience, told.department, told.project) == ("nodes", None, None)
    said = plain(alert_in_words(told.code, told.params))
    assert "Running workloads that can't be watched is 2, above 0 for 2 min" in said
    # When readings return, then the alert is over
    for number in range(7, 11):
        models.Replica.objects.update(sampled_at=minute(number), idle=False)
        alerts.evaluate(now=minute(number))
    assert made.alerts.get().cleared_at == minute(9)


def test_the_fullest_limit_of_a_scope(place):
    run(place, "a-1", of="unit-a", gpu="0.38")
    figures = Figures(now=START)
    dev = place.departments["dev-test"].pk
    assert figures.value(Metric.LIMIT_USED_PERMILLE, (dev, None, None)) == 500
    prod = place.departments["prod"].pk
    assert figures.value(Metric.LIMIT_USED_PERMILLE, (prod, None, None)) is None


def test_a_long_wait_is_raised_told_to_those_who_govern_and_over_when_it_runs(place):
    # Given a rule of unit-a: nothing waits longer than ten minutes
    project = place.projects["unit-a"]
    rule(Metric.LONGEST_WAIT_S, 600, project_id=project.pk)
    waits = place.submit("a-1", of="unit-a", gpu="0.09")
    for number in range(13):
        alerts.evaluate(now=minute(number))
    # Then it is raised a minute after the ten, once, and announced to the project's admins
    alert = models.Alert.objects.get()
    assert alert.raised_at == minute(12)
    announced = models.Announcement.objects.get(code="alert_raised")
    assert (announced.audience, announced.project) == ("policy", project)
    # When it runs, then the alert is over and that is told too
    models.Workload.objects.filter(pk=waits.pk).update(phase=Phase.RUNNING)
    for number in range(13, 16):
        alerts.evaluate(now=minute(number))
    alert.refresh_from_db()
    assert alert.cleared_at == minute(14)
    assert alert.peak == 720
    codes = models.Announcement.objects.order_by("id").values_list("code", flat=True)
    assert list(codes) == ["alert_raised", "alert_cleared"]


def test_a_silenced_rule_stands_on_the_page_and_is_told_to_nobody(place):
    made = rule(Metric.LONGEST_WAIT_S, 60, for_s=0)
    operations.silence_rule(rule_id=made.pk, until=minute(60), authority=SYSTEM, now=minute(0))
    place.submit("a-1", of="unit-a", gpu="0.09")
    alerts.evaluate(now=minute(2))
    assert models.Alert.objects.get().silenced
    assert not models.Announcement.objects.exists()


def test_a_time_without_looks_proves_nothing(place):
    rule(Metric.LONGEST_WAIT_S, 60, for_s=300)
    place.submit("a-1", of="unit-a", gpu="0.09")
    alerts.evaluate(now=minute(2))
    # When nobody has looked for an hour, then the clock begins anew
    alerts.evaluate(now=minute(62))
    assert not models.Alert.objects.exists()
    for number in range(63, 68):
        alerts.evaluate(now=minute(number))
    assert models.Alert.objects.get().raised_at == minute(67)


def test_scratch_trees_raise_nothing(place):
    rule(Metric.LONGEST_WAIT_S, 60, for_s=0)
    models.Department.objects.update(scratch=True)
    place.submit("a-1", of="unit-a", gpu="0.09")
    alerts.evaluate(now=minute(30))
    assert not models.Alert.objects.exists()


def test_acknowledged_once_with_name_and_comment(place):
    made = rule(Metric.LONGEST_WAIT_S, 60, for_s=0)
    place.submit("a-1", of="unit-a", gpu="0.09")
    alerts.evaluate(now=minute(2))
    alert = models.Alert.objects.get()
    operations.acknowledge(alert_id=alert.pk, comment="on it", authority=SYSTEM, now=minute(3))
    with pytest.raises(Refused, match="looks after it already"):
        operations.acknowledge(alert_id=alert.pk, comment="", authority=SYSTEM, now=minute(4))
    actions = models.AuditEntry.objects.filter(object_name=made.name)
    assert set(actions.values_list("action", flat=True)) == {"alert_rule.set", "alert.acknowledge"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"metric": "moon"}, "metric"),
        ({"threshold": -1}, "threshold"),
        ({"metric": "idle_share_permille", "threshold": 1001}, "threshold"),
        ({"for_s": -1}, "for_s"),
    ],
)
def test_a_rule_that_can_not_be_is_refused_at_its_field(place, changes, field):
    values = {"name": "x", "metric": "longest_wait_s", "threshold": 1, "for_s": 1, **changes}
    with pytest.raises(operations.AlertRefused) as refused:
        operations.save_rule(
            rule_id=None, values=operations.RuleValues(**values), authority=SYSTEM, now=START
        )
    assert [problem.field for problem in refused.value.problems] == [field]


def test_a_new_cluster_has_rules():
    # Given tables as migrations leave them: other tests of this run may have emptied them since
    models.AlertRule.objects.all().delete()
    import_module("scheduler.migrations.0010_notices_and_alerts").make_rules(apps, None)
    import_module("scheduler.migrations.0015_unwatched_rule").make_rule(apps, None)
    assert models.AlertRule.objects.filter(created_by="", enabled=True).count() == 5


def test_a_budget_counts_where_its_unit_is_and_only_as_long_as_the_figure_is_fresh(place):
    # Given 80 % of unit-a's budget and 30 % of dev-test's are spent, worked out a minute ago
    for permille, unit in (
        (800, {"project": place.projects["unit-a"]}),
        (300, {"department": place.departments["dev-test"]}),
    ):
        models.Budget.objects.create(
            monthly=1000, spent_permille=permille, spent_at=minute(-1), **unit
        )

    def figure(*where, now=START):
        return Figures(now=now).value(Metric.BUDGET_SPENT_PERMILLE, where)

    # Then the fullest of a scope is its figure, and elsewhere, or when it is old, nothing is known
    assert figure(None, None, None) == 800
    assert figure(place.departments["dev-test"].pk, None, None) == 800
    assert figure(None, place.projects["unit-a"].pk, None) == 800
    assert figure(None, place.projects["unit-b"].pk, None) is None
    assert figure(place.departments["prod"].pk, None, None) is None
    assert figure(None, None, None, now=minute(30)) is None


def test_a_budget_alert_is_raised_by_the_tick_and_is_for_all_pools(place):
    budget = models.Budget.objects.create(
        monthly=1000, spent_permille=790, spent_at=START, project=place.projects["unit-a"]
    )
    made = rule(Metric.BUDGET_SPENT_PERMILLE, 800, for_s=0, project_id=place.projects["unit-a"].pk)
    alerts.evaluate(now=START)
    assert not made.alerts.exists()
    models.Budget.objects.filter(pk=budget.pk).update(spent_permille=1200, spent_at=minute(1))
    alerts.evaluate(now=minute(1))
    assert [(each.value, each.cleared_at) for each in made.alerts.all()] == [(1200, None)]
    with pytest.raises(Refused) as refused:
        rule(Metric.BUDGET_SPENT_PERMILLE, 800, pool_id=place.pool.pk)
    assert [(p.field, p.code) for p in refused.value.problems] == [("pool", "budget_of_all_pools")]
