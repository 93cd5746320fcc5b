"""Saved reports stay as they were made; scheduled ones are made once for each period that ended."""

from __future__ import annotations

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from access import tokens
from access.models import AccessRule, User
from access.scopes import authority_of
from reports import saved, tasks
from reports.asked import parse_asked
from reports.consumption import make_report
from reports.csv_export import report_csv
from reports.periods import told_in
from reports.refused import ReportRefused
from scheduler import models
from scheduler.operations.authority import SystemAuthority
from scheduler.queries import saved_reports
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from tests.reports.ledgers import Ledger, utc

NOW = utc(2026, 11, 4, 9)
WORDS = {"period": ["custom"], "from": ["2026-11-02"], "to": ["2026-11-03"], "zone": ["UTC"]}


@pytest.fixture
def ledger(db):
    made = Ledger(price="74").department("dev").project("=1+1", of="dev", quota="0.30")
    made.hold("=1+1", "0.50", utc(2026, 11, 2), utc(2026, 11, 2, 10))
    return made


@pytest.fixture
def admin(db):
    return User.objects.create_superuser("admin", password="x")


@pytest.fixture
def page(admin):
    client = Client()
    client.force_login(admin)
    return client


def asked(**changes):
    return parse_asked(words={**WORDS, **changes}, zone="UTC", now=NOW)


def keep(owner="admin"):
    return saved.save(
        visible=WHOLE_CLUSTER,
        asked=asked(),
        name="Monday",
        authority=SystemAuthority(name=owner),
        now=NOW,
    )


def test_a_saved_report_is_what_it_was_when_it_was_made(ledger):
    as_made = b"".join(
        report_csv(report=make_report(visible=WHOLE_CLUSTER, request=asked().request, now=NOW))
    )
    number = keep()

    ledger.hold("=1+1", "0.50", utc(2026, 11, 2), utc(2026, 11, 2, 1))
    project = ledger.projects["=1+1"]
    project.name = "renamed"
    project.save()

    found = saved_reports.read_saved(report_id=number, reader="admin")
    assert b"".join(saved.saved_csv(saved=found)) == as_made


def test_only_its_owner_reads_a_saved_report(ledger, page):
    mine = keep()
    saved_of_another = keep(owner="bob")

    assert page.get(f"/reports/saved/{mine}").status_code == 200
    assert page.get(f"/reports/saved/{mine}.csv").content.startswith(b"\xef\xbb\xbf")
    for path in (f"/reports/saved/{saved_of_another}", f"/reports/saved/{saved_of_another}.csv"):
        assert page.get(path).status_code == 404


def test_a_report_is_saved_listed_and_dropped_on_the_page(ledger, page):
    address = "/reports/saved/new?period=custom&from=2026-11-02&to=2026-11-03&zone=UTC"

    kept = page.post(address, {"name": "Monday", "every": ""}, follow=True)
    nameless = page.post(address, {"name": " "})
    planned = page.post(address, {"name": "Weekly", "every": "week"}, follow=True)
    taken = page.post(address, {"name": "Weekly", "every": "day"})

    assert "5.000" in kept.content.decode()
    assert nameless.status_code == taken.status_code == 400
    assert "Give the report a name" in nameless.content.decode()
    assert "Each week" in planned.content.decode()
    assert "Choose another name" in taken.content.decode()
    page.post("/reports/saved/drop", {"report": models.SavedReport.objects.get().pk})
    page.post("/reports/saved/drop", {"schedule": models.ReportSchedule.objects.get().pk})
    assert "Nothing is saved yet" in page.get("/reports/saved").content.decode()


def test_mail_is_refused_where_no_server_is_set(ledger, page):
    answer = page.post(
        "/reports/saved/new?period=7d", {"name": "n", "every": "day", "mail_to": "a@example.org"}
    )

    assert answer.status_code == 400
    assert "sends no mail" in answer.content.decode()


TIMES = [
    # made      is next made at, from 2026-11-04 09:00 UTC (a Wednesday, 17:00 in Taipei)
    ("day", utc(2026, 11, 4, 16, 15)),
    ("week", utc(2026, 11, 8, 16, 15)),
    ("month", utc(2026, 11, 30, 16, 15)),
]


@pytest.mark.parametrize(("every", "at"), TIMES)
def test_a_scheduled_report_is_made_soon_after_its_local_period_ended(every, at):
    assert saved.next_time(every=every, zone="Asia/Taipei", after=NOW) == at


def plan(*, every="day", mail_to="", owner="admin"):
    return saved.schedule(
        asked=asked(),
        name="plan",
        authority=SystemAuthority(name=owner),
        every=every,
        language="en",
        mail_to=mail_to,
        now=NOW,
    )


def test_a_due_report_is_made_once_with_what_its_owner_may_see(ledger, admin, time_machine):
    plan()
    time_machine.move_to(utc(2026, 11, 3, 0, 20))
    models.ReportSchedule.objects.update(next_at=utc(2026, 11, 3, 0, 15))

    tasks.make_due_reports()
    tasks.make_due_reports()

    found = models.SavedReport.objects.get()
    assert found.content["period_start"] == "2026-11-02T00:00:00+00:00"
    assert found.content["period_end"] == "2026-11-03T00:00:00+00:00"
    assert "5.000" in found.content["total"]
    assert models.ReportSchedule.objects.get().next_at == utc(2026, 11, 4, 0, 15)


def test_a_due_report_goes_out_by_mail_as_csv(ledger, admin, time_machine, settings):
    settings.EMAIL_HOST = "mail.example.org"
    plan(mail_to="finance@example.org")
    time_machine.move_to(utc(2026, 11, 3, 0, 20))
    models.ReportSchedule.objects.update(next_at=utc(2026, 11, 3, 0, 15))

    tasks.make_due_reports()

    (sent,) = mail.outbox
    assert sent.to == ["finance@example.org"]
    assert sent.body.startswith("plan, 2026-11-02 00:00 to 2026-11-03 00:00 (UTC).")
    name, content, kind = sent.attachments[0]
    assert (name, kind) == ("tidegate-consumption-project-20261102-20261103.csv", "text/csv")
    assert "'=1+1" in str(content)


def test_times_of_saved_reports_name_their_zone_and_are_readable(ledger, page):
    number = saved.save(
        visible=WHOLE_CLUSTER,
        asked=asked(zone=["Asia/Taipei"], bucket=["day"]),
        name="Monday",
        authority=SystemAuthority(name="admin"),
        now=NOW,
    )
    schedule = saved.schedule(
        asked=asked(zone=["Asia/Taipei"]),
        name="plan",
        authority=SystemAuthority(name="admin"),
        every="day",
        language="en",
        mail_to="",
        now=NOW,
    )
    assert models.ReportSchedule.objects.get(pk=schedule).next_at == utc(2026, 11, 4, 16, 15)

    shown = page.get(f"/reports/saved/{number}").content.decode()
    listed = page.get("/reports/saved").content.decode()

    assert "<b>2026-11-02 00:00 – 2026-11-03 00:00</b> Asia/Taipei" in shown
    assert '<td class="">2026-11-02 00:00</td>' in shown
    assert "T00:00:00" not in shown
    assert "2026-11-05 00:15 Asia/Taipei" in listed


def test_an_hour_that_a_clock_shows_twice_is_told_with_its_offset():
    assert told_in(utc(2026, 10, 25, 0, 30), "Europe/Berlin") == "2026-10-25 02:30 +0200"
    assert told_in(utc(2026, 10, 25, 1, 30), "Europe/Berlin") == "2026-10-25 02:30 +0100"
    assert told_in(utc(2026, 10, 25, 2, 30, 5), "Europe/Berlin") == "2026-10-25 03:30:05"


def test_nothing_is_made_for_one_who_is_gone(ledger, time_machine):
    plan(owner="gone")
    time_machine.move_to(utc(2026, 11, 5))

    tasks.make_due_reports()

    assert not models.SavedReport.objects.exists()


def test_an_unknown_rhythm_is_refused(db):
    with pytest.raises(ReportRefused, match="each day, week or month"):
        plan(every="minute")


# --- Sharing --------------------------------------------------------------------------------------


@pytest.fixture
def people(ledger):
    """dan leads the department, mia works in its project, vic elsewhere."""
    ledger.department("ops").project("web", of="ops")
    scopes = {
        "dan": {"role": "department_admin", "department": ledger.departments["dev"]},
        "mia": {"role": "researcher", "project": ledger.projects["=1+1"]},
        "vic": {"role": "researcher", "project": ledger.projects["web"]},
    }
    for name, rule in scopes.items():
        user = User.objects.create_user(name, password="x")
        AccessRule.objects.create(user=user, **rule)


def browser(name):
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def readers_of(number):
    """Who of all reads a report on its page, its file and over the API, and has it in a list."""
    found = set()
    for user in User.objects.all():
        client = browser(user.username)
        address = f"/reports/saved/{number}"
        answers = {
            client.get(address).status_code,
            client.get(f"{address}.csv").status_code,
            client.get(f"/api/v1/reports/saved/{number}").status_code,
        }
        assert len(answers) == 1, (user, answers)
        listed = f'"{address}"' in client.get("/reports/saved").content.decode()
        rows = client.get("/api/v1/reports/saved").json()["items"]
        assert listed == (number in [row["id"] for row in rows]) == (answers == {200})
        found |= {user.username} if answers == {200} else set()
    return found


def save_as(name, readers, query=""):
    words = "period=custom&from=2026-11-02&to=2026-11-03&zone=UTC" + query
    answer = browser(name).post(f"/reports/saved/new?{words}", {"name": "x", "readers": readers})
    if answer.status_code != 302:
        return answer.status_code
    return int(answer["Location"].rsplit("/", 1)[-1])


def test_a_report_is_read_by_its_owner_by_who_sees_its_units_or_by_all(ledger, admin, people):
    one = f"&project={ledger.projects['=1+1'].pk}"

    assert readers_of(save_as("admin", "me")) == {"admin"}
    assert readers_of(save_as("admin", "unit")) == {"admin"}
    assert readers_of(save_as("admin", "unit", one)) == {"admin", "dan", "mia"}
    assert readers_of(save_as("admin", "all")) == {"admin", "dan", "mia", "vic"}
    # What mia saved tells of her project alone, what dan saved of the department
    assert readers_of(save_as("mia", "unit")) == {"admin", "dan", "mia"}
    assert readers_of(save_as("dan", "unit")) == {"admin", "dan"}
    assert readers_of(save_as("vic", "unit")) == {"admin", "vic"}


def test_only_a_system_admin_shares_with_everyone_and_only_its_own(ledger, admin, people):
    assert save_as("dan", "all") == 403
    assert not models.SavedReport.objects.exists()

    number = save_as("mia", "unit")
    address = f"/reports/saved/{number}/share"
    assert browser("mia").post(address, {"readers": "all"}).status_code == 403
    assert browser("dan").post(address, {"readers": "me"}).status_code == 404
    assert browser("mia").post(address, {"readers": "me"}).status_code == 302
    assert readers_of(number) == {"mia"}
    entries = models.AuditEntry.objects.filter(action="report.share").order_by("id")
    told = entries.values_list("actor", "after")
    assert list(told) == [("mia", {"readers": "me"})]


def test_who_loses_a_role_no_longer_reads_what_was_shared_with_it(ledger, admin, people):
    number = save_as("admin", "unit", f"&project={ledger.projects['=1+1'].pk}")
    AccessRule.objects.filter(user__username="mia").delete()
    assert readers_of(number) == {"admin", "dan"}


def test_what_a_schedule_makes_is_read_by_whom_it_names(ledger, admin, people, time_machine):
    browser("mia").post(
        "/reports/saved/new?by=project", {"name": "d", "every": "day", "readers": "unit"}
    )
    models.ReportSchedule.objects.update(next_at=NOW)
    time_machine.move_to(NOW, tick=False)
    tasks.make_due_reports()
    assert readers_of(models.SavedReport.objects.get().pk) == {"admin", "dan", "mia"}


def make_all_due(time_machine):
    models.ReportSchedule.objects.update(next_at=NOW)
    time_machine.move_to(NOW, tick=False)
    tasks.make_due_reports()


def test_what_a_demoted_admin_had_made_for_everyone_is_for_those_who_see_its_units(
    ledger, people, time_machine
):
    boss = User.objects.create_user("boss", password="x")
    rule = AccessRule.objects.create(user=boss, role="system_admin", cluster=True)
    browser("boss").post(
        "/reports/saved/new?by=project", {"name": "d", "every": "day", "readers": "all"}
    )
    make_all_due(time_machine)
    while_admin = models.SavedReport.objects.get()
    assert readers_of(while_admin.pk) == {"boss", "dan", "mia", "vic"}

    rule.delete()
    AccessRule.objects.create(
        user=boss, role="department_admin", department=ledger.departments["dev"]
    )
    make_all_due(time_machine)
    after = models.SavedReport.objects.exclude(pk=while_admin.pk).get()
    assert readers_of(after.pk) == {"boss", "dan"}
    assert models.ReportSchedule.objects.get().readers == "all"


def test_a_department_admin_shares_one_project_with_those_who_work_in_it(ledger, admin, people):
    one = f"&project={ledger.projects['=1+1'].pk}"
    assert readers_of(save_as("dan", "unit", one)) == {"admin", "dan", "mia"}
    other = f"{one}&project={ledger.projects['web'].pk}"
    assert readers_of(save_as("dan", "unit", other)) == {"admin", "dan"}


def test_each_report_and_schedule_kept_or_dropped_is_on_record(ledger, admin, people):
    mia = browser("mia")
    kept = mia.post("/reports/saved/new?by=project", {"name": "one"})["Location"]
    mia.post("/reports/saved/new?by=project", {"name": "two", "every": "week"})
    mia.post("/reports/saved/drop", {"report": kept.rsplit("/", 1)[-1]})
    mia.post("/reports/saved/drop", {"schedule": models.ReportSchedule.objects.get().pk})
    assert mia.post("/reports/saved/new", {"name": "x", "readers": "all"}).status_code == 403

    told = models.AuditEntry.objects.order_by("id").values_list("action", "object_name", "result")
    assert list(told) == [
        ("report.save", "one", "done"),
        ("report_schedule.create", "two", "done"),
        ("report.drop", "one", "done"),
        ("report_schedule.drop", "two", "done"),
        ("report_save", "", "refused"),
    ]
    saved = models.AuditEntry.objects.get(action="report.save", result="done")
    assert saved.after["readers"] == "me"
    assert saved.after["query"].startswith("period=7d&")


def test_a_list_is_cut_after_the_rights_and_not_before(ledger, admin, people, monkeypatch):
    monkeypatch.setattr(saved_reports, "SHOWN", 2)
    mine = save_as("admin", "unit", f"&project={ledger.projects['=1+1'].pk}")
    for _ in range(3):
        save_as("admin", "unit", f"&project={ledger.projects['web'].pk}")
    everything = Visibility(project_ids=frozenset([ledger.projects["=1+1"].pk]))

    found = saved_reports.list_shared(reader="mia", visible=everything)
    own = saved_reports.list_saved(owner="admin", within=everything)

    assert [row.id for row in found] == [row.id for row in own] == [mine]


def bearer(name, *, scope=None):
    """A client that comes by a token of a person, cut to a scope."""
    user = User.objects.get(username=name)
    made = tokens.create_own(
        terms=tokens.TokenTerms(name="sweep", days=1, scope=scope),
        authority=authority_of(user=user, door="page"),
        now=timezone.now(),
    )
    return Client(headers={"authorization": f"Bearer {made.secret}"})


def test_a_token_of_one_project_has_only_schedules_that_name_it(ledger, admin, people):
    project = ledger.projects["=1+1"].pk
    whole, part = bearer("dan"), bearer("dan", scope=("project", project))
    address = "/api/v1/reports/schedules"

    def add(client, name, query=""):
        body = {"name": name, "every": "day", "readers": "unit"}
        return client.post(f"{address}{query}", body, content_type="application/json")

    def names(client):
        return [row["name"] for row in client.get(address).json()["items"]]

    assert add(whole, "all of dev").status_code == 201
    assert add(whole, "dev", f"?department={ledger.departments['dev'].pk}").status_code == 201
    assert add(part, "mine", f"?project={project}").status_code == 201
    for query in ("", f"?department={ledger.departments['dev'].pk}", f"?project={project + 1}"):
        refused = add(part, "more", query)
        assert (refused.status_code, refused.json()["code"]) == (403, "schedule_beyond_token")

    assert names(whole) == ["all of dev", "dev", "mine"]
    assert names(part) == ["mine"]
    theirs = models.ReportSchedule.objects.get(name="dev").pk
    assert part.delete(f"{address}/{theirs}").status_code == 404
    assert whole.delete(f"{address}/{theirs}").status_code == 204
