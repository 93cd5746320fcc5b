"""Every endpoint of the document with each scoped role: what is outside is as if it were not there."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.models import AccessRule, AccessToken, Group, User
from access.roles import Role
from access.scopes import authority_of
from access.service_accounts import create_account
from dashboard.api.app import api as document
from scheduler import models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import AssetKind, Level
from scheduler.operations import assets, emergency, gateway_keys, quota_schedules
from scheduler.operations.authority import SYSTEM
from scheduler.operations.quotas import QuotaEdit
from scheduler.queries.workloads import Sort
from tests.api.conftest import Api, token_of
from tests.downloads import body_of as body_of_answer

pytestmark = pytest.mark.django_db

MISSING = 987_654
HOME, HOME_PROJECT = "Research", "nlp-lab"
FOREIGN, FOREIGN_PROJECT = "Dev and test", "vision-lab"
SCOPED = [role for role in Role if role is not Role.SYSTEM_ADMIN]
#: Where a path's id is not that of a workload: by the parameter's name.
KINDS = (
    "workload_id",
    "decision_id",
    "key_id",
    "request_id",
    "project_id",
    "department_id",
    "asset_id",
    "schedule_id",
    "user_id",
    "group_id",
    "rule_id",
    "alert_id",
    "channel_id",
    "delivery_id",
    "token_id",
    "account_id",
    "control_id",
    "run_id",
    "saved_id",
    "report_schedule_id",
    "replay_id",
    "number",
)
#: Words in a path, not ids.
WORDS = {"kind"}
#: Nodes are everybody's: their devices are anonymous beyond one's scopes.
OPEN = {"node_id", "index"}
#: For running replicas with their own token: nobody else has an answer.
OF_REPLICAS = {("POST", "/api/v1/workloads/{workload_id}/progress")}
#: Never ends; its rows are those of the list.
ENDLESS = {"/api/v1/decisions/stream"}
#: The rows of the CSV, where pyarrow is installed.
BINARY = {"/api/v1/reports/consumption.parquet"}


@pytest.fixture
def foreign(scene):
    project = models.Project.objects.get(name=FOREIGN_PROJECT)
    workload = models.Workload.objects.filter(project=project, phase="running").first()
    decision = models.Decision.objects.create(
        pool=workload.pool,
        project=project,
        workload=workload,
        at=workload.submitted_at,
        cycle=1,
        verb="place",
    )
    asked = models.ServeRequest.objects.create(
        project=project,
        pool=workload.pool,
        name="foreign-service",
        requested_by="foreigner",
        requested_at=workload.submitted_at,
    )
    key = gateway_keys.create_key(
        project_id=project.pk,
        terms=gateway_keys.KeyTerms(name="foreign-key"),
        authority=SYSTEM,
        now=workload.submitted_at,
    ).key
    return {
        "workload_id": workload.pk,
        "decision_id": decision.pk,
        "request_id": asked.pk,
        "key_id": key.pk,
        "project_id": project.pk,
        "department_id": project.department_id,
        **governance(project, workload.submitted_at),
    }


def governance(project, now):
    """Return what governs the foreign project: asset, schedule, person, group, rules, alert, channel."""
    scope = {"project_id": project.pk, "authority": SYSTEM, "now": now}
    asset = assets.create_asset(
        kind=AssetKind.ENVIRONMENT, draft=assets.AssetDraft(name="foreign-asset"), **scope
    )
    alert_rule = models.AlertRule.objects.create(
        name="foreign-alert",
        metric="longest_wait_s",
        project=project,
        threshold=1,
        for_s=1,
        created_at=now,
    )
    alert = alert_rule.alerts.create(raised_at=now, threshold=1, value=2, peak=2)
    schedule = quota_schedules.save_schedule(
        pool_id=models.NodePool.objects.first().pk,
        name="foreign-schedule",
        timing=quota_schedules.Timing(at=timezone.now() + timedelta(days=400)),
        edits=[QuotaEdit(level=Level.PROJECT, id=project.pk, values=QueueQuota(quota_mgpu=1_000))],
        authority=SYSTEM,
        now=timezone.now(),
    )
    user = User.objects.create_user("foreigner", password="someone-of-tests")
    group = Group.objects.create(name="foreign-group")
    rule = AccessRule.objects.create(user=user, role=Role.VIEWER, project=project)
    AccessRule.objects.create(group=group, role=Role.VIEWER, project=project)
    channel = models.NoticeChannel.objects.create(
        username="foreigner", type="slack", shown="foreign-host", created_at=now
    )
    account = create_account(
        name="foreign-account",
        purpose="",
        scope=("project", project.pk),
        authority=authority_of(
            user=User.objects.create_superuser("root", password="someone-of-tests"), door="page"
        ),
        now=now,
    )
    token_of(user)
    delivery = channel.deliveries.create(created_at=now, next_at=now, status="dead")
    return {
        "asset_id": asset.pk,
        "schedule_id": schedule.pk,
        "user_id": user.pk,
        "group_id": group.pk,
        "rule_id": {"access-rules": rule.pk, "alert-rules": alert_rule.pk},
        "alert_id": alert.pk,
        "channel_id": channel.pk,
        "delivery_id": str(delivery.pk),
        "account_id": account.pk,
        "control_id": emergency.set_control(
            order=emergency.Order(
                kind="pause",
                reason="foreign-reason",
                until=timezone.now() + timedelta(days=1),
                project_id=project.pk,
            ),
            authority=SYSTEM,
            now=timezone.now(),
        ).pk,
        "token_id": AccessToken.objects.get(user=user).pk,
        **kept(project, now),
    }


def kept(project, now):
    """Return what the foreigner has kept and asked for, a run of the verifications, and a closed month."""
    report = models.SavedReport.objects.create(
        name="foreign-report", owner="foreigner", made_at=now, content={}
    )
    schedule = models.ReportSchedule.objects.create(
        name="foreign-report", owner="foreigner", zone="UTC", created_at=now, next_at=now
    )
    run = models.VerificationRun.objects.create(
        numbers=["1"], layout="card", requested_by="foreigner", requested_at=now
    )
    replay = models.QuotaReplay.objects.create(
        pool=models.NodePool.objects.first(),
        days=7,
        requested_by="foreigner",
        requested_at=now,
        touched_at=now,
    )
    statement = models.Statement.objects.create(
        number=1,
        month="2026-01",
        zone="UTC",
        currency="NT$",
        closed_at=now,
        closed_by="foreigner",
        lines=[{"project_id": str(project.pk), "department_id": str(project.department_id)}],
    )
    return {
        "saved_id": report.pk,
        "report_schedule_id": schedule.pk,
        "run_id": run.pk,
        "replay_id": replay.pk,
        "number": statement.number,
    }


def someone(role):
    user = User.objects.create_user("self", password="someone-of-tests")
    scope = {"department": models.Department.objects.get(name=HOME)}
    if role is not Role.DEPARTMENT_ADMIN:
        scope = {"project": models.Project.objects.get(name=HOME_PROJECT)}
    AccessRule.objects.create(user=user, role=role, **scope)
    return Api(user)


def operations():
    for path, methods in document.get_openapi_schema()["paths"].items():
        for method in methods:
            yield path, method.upper(), methods[method]


BODIES = {
    "PriorityIn": {"priority": 60},
    "ChangeScalingIn": {"min_replicas": 0, "max_replicas": 1},
    "AnswerIn": {"answer": "no"},
    "DepartmentIn": {"name": "Renamed"},
    "ProjectChangeIn": {"name": "renamed"},
    "ContentIn": {"name": "renamed", "environment": {}},
    "ScheduleIn": {
        "name": "renamed",
        "at": "2100-01-01T00:00:00Z",
        "rows": [{"level": "project", "id": 1, "quota_mgpu": 1}],
    },
    "PersonChangeIn": {"active": False},
    "GroupIn": {"name": "renamed"},
    "MemberIn": {"username": "self"},
    "AcknowledgeIn": {},
    "AlertRuleIn": {"name": "renamed", "metric": "longest_wait_s", "threshold": 1, "for_s": 1},
    "SilenceIn": {"until": None},
    "IdleRuleIn": {"idle_limit_s": 600},
    "TokenIn": {"name": "mine"},
    "BudgetIn": {"monthly": "100"},
    "ShareIn": {"readers": "me"},
    "KeyTermsIn": {"name": "renamed"},
}


def _of(number, path):
    """Return the id of a kind that several addresses have, by the word before it."""
    return number if not isinstance(number, dict) else number[path.split("/")[3]]


def body_of(operation):
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    return BODIES.get(schema.get("$ref", "").rsplit("/", 1)[-1])


@pytest.mark.parametrize("role", SCOPED)
def test_a_foreign_thing_answers_as_a_missing_one(foreign, role):
    call = someone(role)
    walked = 0
    for path, method, operation in operations():
        names = re.findall(r"{(\w+)}", path)
        if not names or set(names) <= OPEN or (method, path) in OF_REPLICAS:
            continue
        assert set(names) - WORDS <= set(KINDS), f"{path}: say what its id is of"
        answers = []
        for number in (_of(foreign[names[0]], path), MISSING):
            address = path.replace(f"{{{names[0]}}}", str(number)).removeprefix("/api/v1")
            address = re.sub(r"{\w+}", "1", address)
            answer = call(method, address, body_of(operation))
            answers.append((answer.status_code, answer.content))
        assert answers[0] == answers[1], (method, path)
        assert answers[0][0] == 404, (method, path)
        walked += 1
    assert walked > 15


@pytest.mark.parametrize("role", SCOPED)
def test_lists_tell_nothing_of_what_is_outside(foreign, role):
    outside = {
        *models.Project.objects.exclude(department__name=HOME).values_list("name", flat=True),
        *models.Department.objects.exclude(name=HOME).values_list("name", flat=True),
        *(
            name
            for name in models.Workload.objects.exclude(project__department__name=HOME).values_list(
                "name", flat=True
            )
            if len(name) > 4
        ),
        "foreign-service",
        "foreign-key",
        "foreign-asset",
        "foreign-schedule",
        "foreign-alert",
        "foreign-group",
        "foreign-host",
        "foreign-account.vision-lab",
        "foreign-reason",
        "foreign-report",
        "foreigner",
    }
    call = someone(role)
    told = {}
    for path, method, _operation in operations():
        if method != "GET" or "{" in path or path in ENDLESS | BINARY:
            continue
        answer = call.get(path.removeprefix("/api/v1"))
        assert answer.status_code in (200, 404), path
        text = body_of_answer(answer).decode()
        found = {word for word in outside if f'"{word}"' in text or f"{word} " in text}
        if found:
            told[path] = found
    assert told == {}


def test_everything_needs_to_be_signed_in(client, foreign):
    for path, method, _operation in operations():
        address = re.sub(r"{\w+}", "1", path)
        assert client.generic(method, address).status_code == 401, (method, path)


@pytest.mark.parametrize("role", [Role.RESEARCHER, Role.PROJECT_ADMIN])
def test_b36_totals_count_ones_own_whatever_is_sorted_asked_or_paged(foreign, role):
    # Given someone of one project, whose works are few of the cluster's
    call = someone(role)
    own = models.Workload.objects.filter(project__name=HOME_PROJECT, deleted_at=None).count()
    assert 0 < own < models.Workload.objects.count()
    # When works are asked for in each order, beyond the last page, or by a project that is not theirs
    for sort in Sort:
        told = call.get(f"/workloads?sort={sort.value}&limit=200").json()
        assert (told["total"], len(told["items"])) == (own, own), sort
    beyond = [call.get(f"/workloads?after={number}") for number in (1, 10**6)]
    assert all(each.status_code in (400, 422) or each.json()["total"] == own for each in beyond)
    # Then each list counts what it shows
    counted = 0
    for path, method, _operation in operations():
        if method != "GET" or "{" in path or path in ENDLESS:
            continue
        answer = call.get(path.removeprefix("/api/v1") + "?limit=200")
        if answer.status_code != 200 or answer.streaming or "json" not in answer["Content-Type"]:
            continue
        told = answer.json()
        if isinstance(told, dict) and {"items", "total"} <= set(told):
            # A list that goes on by the newest has no count
            assert told["total"] in (None, len(told["items"])), path
            counted += 1
    assert counted > 5


def test_b36_a_foreign_thing_is_found_missing_by_as_many_looks_as_a_missing_one(foreign):
    """So that the time of an answer tells nothing either."""
    call = someone(Role.RESEARCHER)
    differ = {}
    for path, method, _operation in operations():
        names = re.findall(r"{(\w+)}", path)
        if method != "GET" or not names or set(names) <= OPEN:
            continue
        looks = []
        for number in (MISSING - 1, _of(foreign[names[0]], path), MISSING):
            address = path.replace(f"{{{names[0]}}}", str(number)).removeprefix("/api/v1")
            with CaptureQueriesContext(connection) as seen:
                call.get(re.sub(r"{\w+}", "1", address))
            looks.append(len(seen))
        # The first warms what is kept between requests
        if looks[1] != looks[2]:
            differ[path] = looks
    assert differ == {}
