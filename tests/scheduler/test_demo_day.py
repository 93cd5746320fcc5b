"""The demonstration's day: its hours, who may start it, one at a time, and that nothing of it is left."""

from __future__ import annotations

from datetime import timedelta

import pytest

from access.models import AccessRule, User
from access.scopes import authority_of
from scheduler import models
from scheduler.core.autoscale import Metric
from scheduler.core.vocabulary import Kind
from scheduler.management.demo_day import work
from scheduler.management.demo_day.hours import MINUTES, busy_percent, time_of_day
from scheduler.operations import demo_days, demonstrations, gateway_keys, services, submissions
from scheduler.operations.authority import SYSTEM, NotPermitted
from scheduler.operations.demonstration_data import DEMONSTRATIONS
from scheduler.operations.refused import Refused
from scheduler.queries.demo_days import has_services
from scheduler.tick import demo_day
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db


@pytest.fixture
def place():
    made = places.article()
    services.submit_service(
        project_id=made.projects["dev-chat"].pk,
        pool_id=made.pool.pk,
        submission=submissions.Submission(
            name="chat",
            kind=Kind.INFERENCE,
            command=["serve"],
            request_mgpu=100,
            max_replicas=2,
        ),
        scaling=services.Scaling(metric=Metric.CONCURRENCY, threshold=2),
        authority=SYSTEM,
        now=START,
    )
    return made


def begin():
    return demo_days.start(day_s=600, url="http://here/", authority=SYSTEM, now=START)


def test_a_day_passes_in_its_time_and_offices_are_busy_by_day():
    start, later = (time_of_day(passed_s=s, day_s=600) for s in (0, 600))
    assert (later.minute, later.days) == (start.minute, start.days + 1)
    by_hour = [busy_percent(minute=minute, position=0) for minute in range(0, MINUTES, 60)]
    assert max(by_hour) == 100
    assert min(by_hour[10:17]) > max(by_hour[0:5])
    assert 0 in by_hour  # at night nobody asks
    assert by_hour != [busy_percent(minute=m, position=1) for m in range(0, MINUTES, 60)]


def test_one_at_a_time_and_audited(place):
    begin()
    with pytest.raises(Refused, match="under way already"):
        begin()
    demo_days.stop(authority=SYSTEM, now=START)
    with pytest.raises(Refused, match="not under way"):
        demo_days.stop(authority=SYSTEM, now=START)
    actions = models.AuditEntry.objects.filter(action__startswith="demo_day").order_by("id")
    assert [entry.action for entry in actions] == ["demo_day.start", "demo_day.stop"]


def test_without_a_service_that_follows_its_load_there_is_no_day():
    with pytest.raises(Refused, match="No service here"):
        begin()


def test_only_system_admins(place):
    user = User.objects.create_user("bo", password="x")
    AccessRule.objects.create(user=user, role="project_admin", project=place.projects["dev-chat"])
    with pytest.raises(NotPermitted):
        demo_days.start(
            day_s=600, url="", authority=authority_of(user=user, door="page"), now=START
        )


def test_of_many_that_would_begin_its_process_one_does(place):
    begin()
    assert demo_days.claim_spawn(now=START)
    assert not demo_days.claim_spawn(now=START + timedelta(seconds=5))
    # And one that never took it up is begun again
    assert demo_days.claim_spawn(now=START + timedelta(minutes=1))
    demo_days.stop(authority=SYSTEM, now=START)
    assert not demo_days.claim_spawn(now=START + timedelta(minutes=5))


def test_its_trainings_wait_where_they_are_to_and_go_with_it(place):
    filling = work.Filling()
    for _ in range(2):
        filling.refill(now=START)
    fill = DEMONSTRATIONS["card"].fills[0]
    rows = demo_days.find_left_work()
    assert [row.project.name for row in rows] == [fill.project] * fill.most
    # A person's own work is not taken for the day's
    own = place.submit("own", of="unit-a", gpu="0.09", command=["fake"])
    models.Workload.objects.filter(pk=own.pk).update(env={demo_days.MARK: "1"}, submitted_by="bo")
    terms = gateway_keys.KeyTerms(name=demo_days.KEY_NAME)
    gateway_keys.create_key(
        project_id=place.projects["dev-chat"].pk, terms=terms, authority=SYSTEM, now=START
    )
    work.clear(now=START)
    assert demo_days.find_left_work() == []
    assert demo_days.find_left_keys() == []
    own.refresh_from_db()
    assert (own.deleted_at, own.delete_requested) == (None, False)


def test_the_tick_begins_a_process_and_has_left_work_removed(place, monkeypatch):
    begun = []
    monkeypatch.setattr(demo_day, "_spawn", begun.append)
    demo_day.tend(now=START)
    assert begun == []
    begin()
    demo_day.tend(now=START)
    demo_day.tend(now=START)
    assert begun == ["--again"]
    work.Filling().refill(now=START)
    demo_days.stop(authority=SYSTEM, now=START)
    demo_day.tend(now=START)
    assert begun == ["--again", "--clear"]


@pytest.mark.parametrize("name", sorted(DEMONSTRATIONS))
def test_each_demonstration_has_services_and_projects_for_the_day(name):
    shown = DEMONSTRATIONS[name]
    demonstrations.lay_out(demonstration=shown, authority=SYSTEM, now=START)
    assert has_services()
    work.Filling().refill(now=START)
    filled = {row.project.name for row in demo_days.find_left_work()}
    assert filled == {fill.project for fill in shown.fills}
