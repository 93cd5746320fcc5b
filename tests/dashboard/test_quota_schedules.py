"""Scheduled changes on their pages: saved from the review, seen by scope, edited, cancelled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from access.roles import Role
from scheduler import models
from scheduler.operations import quota_switches
from scheduler.queries.notices import list_notices
from scheduler.queries.phrases import plain
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.dashboard.conftest import person
from tests.dashboard.test_quota_editor import (  # noqa: F401
    form,
    head_of_research,
    pages,
    row_of,
    text,
)

pytestmark = pytest.mark.django_db

WEEKLY = {
    "when": "weekly",
    "name": "nights",
    "days": ["0", "1", "2", "3", "4"],
    "begins": "19:00",
    "ends": "07:00",
    "holidays": "2026-12-25, 2027-01-01",
    "reason": "inference sleeps",
}


@pytest.fixture(autouse=True)
def noon(time_machine):
    """Noon of a Monday: no window of these tests is open, unless a test opens it."""
    time_machine.move_to(datetime(2026, 11, 30, 12, 0, tzinfo=UTC))


def night(**changes):
    return form("nlp-lab", quota="8") | form("bio-fold", quota="8", limit="10") | WEEKLY | changes


def test_a_draft_is_scheduled_from_the_review_and_stands_in_the_list(pages):  # noqa: F811
    # Given the review of a draft, when "on a schedule" is chosen
    said = text(pages.post(reverse("quota_review"), night()))
    # Then both switches stand there with what they would do
    assert "When the window begins" in said
    assert "When it ends after that" in said
    assert '<button class="btn primary">Schedule</button>' in said
    # When it is saved, then nothing has changed yet, and the list says when
    answer = pages.post(reverse("quota_save"), night())
    assert answer.status_code == 302
    assert answer.url == reverse("quota_schedules") + "?pool=main"
    listed = text(pages.get(answer.url))
    assert "Mon–Fri 19:00–07:00" in listed
    assert "without 2 dates" in listed
    assert "Guarantee <span" in listed
    entry = models.AuditEntry.objects.filter(action="quota_schedule.create").first()
    assert entry.after["quota_mgpu"] in (8_000, 10_000)
    assert entry.reason == "inference sleeps"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ""}, "Give it a name"),
        ({"begins": "25:00"}, "Enter a valid time"),
        ({"ends": ""}, "Choose a time."),
        ({"days": []}, "Choose at least one day of the week."),
        ({"holidays": "christmas"}, "christmas is not a date such as 2026-12-25."),
        ({"when": "at", "at": "soon"}, "Not a time"),
        ({"when": "at", "at": "9999-12-31 23:59"}, "Not a time"),
        ({"when": "at", "at": "2099-12-01T18:00+05:00"}, "Not a time"),
        ({"when": "at", "at": "2020-01-01T10:00"}, "Choose a time that is still to come."),
    ],
)
def test_what_is_missing_stands_at_its_field_and_nothing_is_lost(pages, changes, said):  # noqa: F811
    answer = text(pages.post(reverse("quota_save"), night(**changes)))
    assert said in answer
    assert 'value="8"' in answer
    assert not models.QuotaSchedule.objects.exists()


def test_an_overlap_is_said_with_the_names_of_both(pages):  # noqa: F811
    pages.post(reverse("quota_save"), night())
    said = text(pages.post(reverse("quota_save"), night(name="late", begins="23:00")))
    assert "“late” and “nights” would both set nlp-lab at the same time" in said


def test_a_guarantee_below_protected_work_can_be_scheduled_and_says_how_far_it_goes(pages):  # noqa: F811
    data = form("dev-inference", quota="1") | WEEKLY
    said = text(pages.post(reverse("quota_review"), data))
    assert "The switch goes down to that, tells the admins" in said
    assert pages.post(reverse("quota_save"), data).status_code == 302


def test_an_open_window_is_edited_from_its_own_values_and_cancelled(pages):  # noqa: F811
    pages.post(reverse("quota_save"), night(days=list("0123456"), begins="00:00", ends="23:59"))
    schedule = models.QuotaSchedule.objects.get()
    assert row_of("nlp-lab").quota.quota_mgpu == 8_000
    page = text(pages.get(reverse("quota_editor"), {"schedule": schedule.pk}))
    assert "This draft has the values of “nights”" in page
    assert 'value="8.00"' in page
    # A change by hand of such a row is told what will become of it
    said = text(pages.post(reverse("quota_review"), form("nlp-lab", quota="9")))
    assert "“nights” holds nlp-lab for a time now" in said
    # When the draft is sent as it is, then the times of the schedule stand in the review
    edit = {"schedule": str(schedule.pk)} | form("nlp-lab", quota="8")
    edit |= dict(form("bio-fold", quota="8.5", limit="10").items())
    said = text(pages.post(reverse("quota_review"), edit))
    assert 'value="nights"' in said
    assert 'value="00:00"' in said
    # When it is cancelled, then what was before is back
    pages.post(reverse("quota_schedule_cancel", args=[schedule.pk]))
    assert row_of("nlp-lab").quota.quota_mgpu == 10_000
    assert "cancelled" in text(pages.get(reverse("quota_schedules")))


def test_a_department_admin_schedules_its_projects_and_sees_no_other(pages, head_of_research):  # noqa: F811
    # Given a schedule of the admin over Research and another department, and one of another alone
    both = form("nlp-lab", quota="8") | form("vision-lab", weight="3") | WEEKLY
    pages.post(reverse("quota_save"), both | {"name": "both"})
    pages.post(
        reverse("quota_save"), form("dev-train", weight="3") | WEEKLY | {"name": "of-others"}
    )
    mixed, foreign = models.QuotaSchedule.objects.order_by("pk")
    pages.get(reverse("quota_schedules"))
    # When the head of Research looks
    pages.force_login(head_of_research)
    page = text(pages.get(reverse("quota_schedules")))
    # Then the first is there with its own row alone, to look at, and the other is not there
    assert "both" in page
    assert "View only" in page
    assert "vision-lab" not in page
    assert "of-others" not in page
    refused = pages.post(reverse("quota_schedule_cancel", args=[mixed.pk]), follow=True)
    assert "also sets rows that are not yours" in text(refused)
    for address in (
        reverse("quota_schedule_cancel", args=[foreign.pk]),
        reverse("quota_schedule_cancel", args=[999_999]),
    ):
        assert pages.post(address).status_code == 404
    assert pages.get(reverse("quota_editor"), {"schedule": foreign.pk}).status_code == 404
    # And its own it may save and cancel
    pages.post(reverse("quota_save"), form("bio-fold", quota="5") | WEEKLY | {"name": "own"})
    own = models.QuotaSchedule.objects.get(name="own")
    pages.post(reverse("quota_schedule_cancel", args=[own.pk]))
    own.refresh_from_db()
    assert own.status == "cancelled"


def test_a_researcher_sees_what_concerns_its_project_and_may_not_cancel(pages, scene):  # noqa: F811
    pages.post(reverse("quota_save"), form("nlp-lab", quota="8") | WEEKLY)
    pages.force_login(person("mei", Role.RESEARCHER, project="nlp-lab"))
    assert "nights" in text(pages.get(reverse("quota_schedules")))
    schedule = models.QuotaSchedule.objects.get()
    pages.post(reverse("quota_schedule_cancel", args=[schedule.pk]))
    schedule.refresh_from_db()
    assert schedule.status == "active"


def test_the_admins_of_a_department_are_told_where_a_switch_stopped(pages, head_of_research):  # noqa: F811
    models.Workload.objects.filter(project__name="nlp-lab").update(preemptible=False)
    held = row_of("nlp-lab").protected_mgpu
    data = form("nlp-lab", quota="1") | WEEKLY
    pages.post(reverse("quota_save"), data | {"days": list("0123456"), "begins": "00:00"})
    quota_switches.apply_due(now=timezone.now().replace(hour=1) + timedelta(days=1))
    assert row_of("nlp-lab").quota.quota_mgpu == held
    told = [
        plain(each.text)
        for each in list_notices(username=head_of_research.username, visible=WHOLE_CLUSTER)
    ]
    assert any("nights wants 1.00 for nlp-lab; it stays at" in line for line in told)
