"""Every address with every role and a foreign scope: what is outside is as if it were not there.

A route that is added and not classified here makes the first test fail.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.db import transaction
from django.urls import URLResolver, get_resolver, reverse
from django.utils import timezone

from access.models import AccessRule, AccessToken, Group, ServiceAccount, User
from access.roles import Role
from dashboard.routing import websocket_urlpatterns
from scheduler import models
from scheduler.core.vocabulary import AssetKind
from scheduler.operations import assets, emergency, gateway_keys, verifications
from scheduler.operations.authority import SYSTEM
from tests.downloads import body_of

pytestmark = pytest.mark.django_db

MISSING = 987_654
#: Someone signed in at the other end of the cluster, whose ids and names are tried.
HOME, HOME_PROJECT, FOREIGN, FOREIGN_PROJECT = "Research", "nlp-lab", "Dev and test", "vision-lab"


@dataclass(frozen=True)
class Page:
    """An address without ids: its body tells nothing of what is outside, whatever is asked for.

    ``asks``: query strings that name something foreign; ``{id}`` is a project, ``{name}`` its name.
    """

    asks: tuple[str, ...] = ()
    #: Roles that have the page; None: everyone.
    only: frozenset[Role] | None = None


@dataclass(frozen=True)
class Thing:
    """An address with an id: a foreign one answers as a missing one does."""

    kind: str
    method: str = "get"


@dataclass(frozen=True)
class Form:
    """A form: a foreign project in it is answered as a missing one is."""

    fields: dict[str, str] = field(default_factory=dict)
    #: Of what the ``{id}`` is.
    kind: str = "project"
    #: Whether the page that it leads to is compared too; a report's figures grow by the second.
    follow: bool = True


@dataclass(frozen=True)
class Public:
    """Tells nothing of the cluster: sign-in, language, words."""


@dataclass(frozen=True)
class Elsewhere:
    """Compared by scope in a test of its own, since it answers from another thread."""

    test: str


ADMINS = frozenset({Role.SYSTEM_ADMIN, Role.DEPARTMENT_ADMIN})
WORKLOAD = {
    "project": "{id}",
    "name": "mine",
    "kind": "training",
    "gpu": "0.09",
    "min_replicas": "1",
    "max_replicas": "1",
    "command": "true",
    "grace_s": "30",
}
ROUTES: dict[str, Page | Thing | Form | Public | Elsewhere] = {
    "overview": Page(asks=("pool={name}",)),
    "overview_day": Page(),
    "overview_averages": Page(),
    "choose_demonstration": Form({"demonstration": "one-card"}),
    "demo_day": Page(only=frozenset({Role.SYSTEM_ADMIN})),
    "demo_day_start": Form({}),
    "demo_day_stop": Form({}),
    "workloads": Page(asks=("project={id}", "q={name}", "after=999999", "sort=-priority")),
    "workload_rows": Page(asks=("shown={id}", "q={name}")),
    "workloads_csv": Elsewhere("tests/dashboard/test_workload_list.py"),
    "workload_new": Form(WORKLOAD),
    "workloads_chosen": Form({"do": "stop", "id": "{id}"}, kind="workload"),
    "workload": Thing("workload"),
    "workload_ways": Thing("workload"),
    "workspace_open": Thing("workload", "post"),
    "workload_log": Thing("workload"),
    "workload_stop": Thing("workload", "post"),
    "workload_start": Thing("workload", "post"),
    "workload_priority": Thing("workload", "post"),
    "workload_delete": Thing("workload", "post"),
    "workload_outlook": Form(WORKLOAD),
    "workload_estimate": Form(WORKLOAD | {"kind": "inference"}),
    "assets": Page(asks=("kind=credential", "kind=template", "q={name}")),
    "asset_new": Form({"name": "mine", "scope": "project-{id}", "type": "git", "url": "git://h/x"}),
    "asset": Thing("asset"),
    "asset_delete": Thing("asset", "post"),
    "device": Page(),
    "node_drain": Form({"node": "{id}"}),
    "node_cordon": Form({"node": "{id}", "cordoned": "yes"}),
    "node_emptying": Page(asks=("node={id}",), only=frozenset({Role.SYSTEM_ADMIN})),
    "inference": Page(asks=("q={name}", "project={id}")),
    "service": Thing("service"),
    "gateway_keys": Page(asks=("project={id}",)),
    "gateway_key": Thing("key"),
    "gateway_key_revoke": Thing("key", "post"),
    "playground_key": Thing("workload", "post"),
    "quotas": Page(asks=("pool={name}",)),
    "quota_editor": Page(asks=("pool={name}",)),
    "quota_preview": Form({"pool": "main", "project-{id}-quota": "1", "project-{id}-over": "on"}),
    "quota_review": Form({"pool": "main", "project-{id}-quota": "1", "project-{id}-over": "on"}),
    "quota_save": Form({"pool": "main", "project-{id}-quota": "1", "project-{id}-over": "on"}),
    "quota_file": Form(
        {"ending": "csv", "text": "pool,department,project\nmain,,{id}\n"}, follow=False
    ),
    "quota_export": Page(),
    "quota_replay_ask": Form(
        {"pool": "main", "project-{id}-quota": "1", "project-{id}-over": "on", "days": "7"}
    ),
    "quota_replay": Thing("replay"),
    "quota_schedules": Page(asks=("pool={name}",)),
    "quota_schedule_cancel": Thing("schedule", "post"),
    "people": Page(asks=("q={name}", "q=foreigner"), only=ADMINS | {Role.PROJECT_ADMIN}),
    "people_create": Form({"username": "new", "password": "harbour-lantern-72"}),
    "people_grant": Form({"username": "self", "role": "viewer", "scope": "project-{id}"}),
    "people_change": Thing("user", "post"),
    "people_revoke": Thing("rule", "post"),
    "proof": Page(only=frozenset({Role.SYSTEM_ADMIN})),
    "proof_run": Thing("run"),
    "proof_lines": Thing("run"),
    "proof_cancel": Thing("run", "post"),
    "proof_document": Thing("run"),
    "groups": Page(only=ADMINS | {Role.PROJECT_ADMIN}),
    "group_create": Form({"name": "mine"}),
    "group_change": Thing("group", "post"),
    "group_member": Thing("group", "post"),
    "account": Page(),
    "own_password": Form({"present": "x", "wanted": "x", "repeated": "x"}),
    "sessions_end": Form(),
    "token_create": Form({"name": "mine", "days": "7", "scope": "project-{id}"}),
    "token_revoke": Thing("token", "post"),
    "service_accounts": Page(only=ADMINS | {Role.PROJECT_ADMIN}),
    "service_account_create": Form({"name": "mine", "scope": "project-{id}"}),
    "service_account_end": Thing("account", "post"),
    "service_token_create": Thing("account", "post"),
    "service_token_revoke": Thing("service_token", "post"),
    "emergency": Page(only=ADMINS | {Role.PROJECT_ADMIN}),
    "emergency_set": Form(
        {"kind": "pause", "scope": "project-{id}", "minutes": "60", "reason": "mine"}
    ),
    "emergency_end": Thing("control", "post"),
    "audit": Page(asks=("q={name}", "who=foreigner"), only=ADMINS),
    "audit_export": Page(asks=("q={name}",), only=ADMINS),
    "idle": Page(),
    "idle_rule": Form({"unit": "project-{id}", "kind": "training", "idle_limit_s": "60"}),
    "idle_keep": Thing("workload", "post"),
    "serve_requests": Page(),
    "serve_request_new": Form(WORKLOAD | {"kind": "inference", "threshold": "2"}),
    "serve_request_approve": Thing("request", "post"),
    "serve_request_decline": Thing("request", "post"),
    "serve_request_withdraw": Thing("request", "post"),
    "notices": Page(),
    "notice_settings": Page(),
    "notice_channel": Form({"type": "webhook", "url": "http://{id}.invalid/"}),
    "notice_channel_remove": Thing("channel", "post"),
    "notice_channel_try": Thing("channel", "post"),
    "notice_again": Form({"delivery": "00000000-0000-0000-0000-{id:012d}"}),
    "alerts": Page(only=ADMINS | {Role.PROJECT_ADMIN}),
    "alert_rule_save": Form(
        {
            "scope": "project-{id}",
            "name": "mine",
            "metric": "longest_wait_s",
            "threshold": "5",
            "for_s": "60",
        }
    ),
    "alert_rule_delete": Thing("alert_rule", "post"),
    "alert_rule_silence": Thing("alert_rule", "post"),
    "alert_acknowledge": Thing("alert", "post"),
    "nodes": Page(asks=("pool={name}",)),
    "decisions_newer": Page(),
    "decisions": Page(asks=("project={id}", "q={name}")),
    "decision": Thing("decision"),
    "reports": Page(asks=("project={id}", "group=project", "group=workload")),
    "saved_reports": Page(),
    "report_save": Form({"name": "mine", "query": "project={id}"}, follow=False),
    "saved_drop": Form({"report": "{saved}"}),
    "saved_report": Thing("saved"),
    "saved_csv": Thing("saved"),
    "saved_share": Thing("saved", "post"),
    "metrics": Elsewhere("tests/dashboard/test_metrics.py"),
    "readyz": Public(),
    "project": Elsewhere("tests/reports/test_unit_page.py"),
    "department": Elsewhere("tests/reports/test_unit_page.py"),
    "report_money": Page(),
    "budget_set": Form({"unit": "project-{id}", "monthly": "100"}, follow=False),
    "month_close": Elsewhere("tests/reports/test_money.py"),
    "report_statement": Elsewhere("tests/reports/test_money.py"),
    "statement_csv": Elsewhere("tests/reports/test_money.py"),
    "report_promise": Page(asks=("project={id}",)),
    "report_savings": Page(),
    "savings_day": Page(),
    "report_intervals": Page(asks=("project={id}",)),
    "report_download": Page(asks=("project={id}",)),
    "map": Page(asks=("node={name}", "pool={name}", "group=department", "group=pool")),
    "search": Page(asks=("q={name}", "q=seg-eval")),
    "live": Elsewhere("tests/dashboard/test_live.py"),
    "login": Public(),
    "to_provider": Public(),
    "from_provider": Public(),
    "logout": Public(),
    "set_language": Public(),
    "words": Public(),
}
SOCKETS = {"ws/live/", "ws/report/"}
#: Their own tests: tests/dashboard/test_admin.py, tests/api/test_walk.py.
NAMESPACES = {"admin", "api"}


def names(resolver):
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            if pattern.namespace not in NAMESPACES:
                yield from names(pattern)
        else:
            yield pattern.name


def test_every_route_is_classified():
    assert set(names(get_resolver())) == set(ROUTES)


def test_every_socket_is_classified():
    """Their messages by scope are compared in test_live.py."""
    assert {str(pattern.pattern) for pattern in websocket_urlpatterns} == SOCKETS


# --- The walk -------------------------------------------------------------------------------------


@pytest.fixture
def foreign(scene):
    """Ids of things of the other department, by kind."""
    project = models.Project.objects.get(name=FOREIGN_PROJECT)
    stranger = User.objects.create_user("foreigner", password="someone-of-tests")
    rule = AccessRule.objects.create(user=stranger, role=Role.RESEARCHER, project=project)
    key = gateway_keys.create_key(
        project_id=project.pk,
        terms=gateway_keys.KeyTerms(name="foreign-key"),
        authority=SYSTEM,
        now=timezone.now(),
    ).key
    workload = models.Workload.objects.get(name="seg-eval")
    service = models.Workload.objects.filter(
        project__department__name=FOREIGN, kind="inference"
    ).first()
    decision = models.Decision.objects.create(
        pool=workload.pool,
        project=project,
        workload=workload,
        at=timezone.now() - timedelta(minutes=1),
        cycle=1,
        verb="start",
    )
    replay = models.QuotaReplay.objects.create(
        pool=workload.pool,
        days=7,
        requested_by="foreigner",
        requested_at=timezone.now(),
        touched_at=timezone.now(),
    )
    schedule = models.QuotaSchedule.objects.create(
        pool=workload.pool,
        name="foreign-nights",
        days=[0],
        to_minute=60,
        created_by="foreigner",
        created_at=timezone.now(),
    )
    models.QuotaScheduleRow.objects.create(
        schedule=schedule, project=project, cells={"quota_mgpu": 1000}
    )
    asked = models.ServeRequest.objects.create(
        project=project,
        pool=workload.pool,
        name="foreign-service",
        requested_by="foreigner",
        requested_at=timezone.now(),
    )
    control = emergency.set_control(
        order=emergency.Order(
            kind="pause",
            reason="foreign-reason",
            until=timezone.now() + timedelta(days=1),
            project_id=project.pk,
        ),
        authority=SYSTEM,
        now=timezone.now(),
    )
    channel = models.NoticeChannel.objects.create(
        username="foreigner", type="email", created_at=timezone.now()
    )
    rule_of_alerts = models.AlertRule.objects.create(
        name="foreign-alert",
        metric="longest_wait_s",
        threshold=1,
        for_s=1,
        project=project,
        created_at=timezone.now(),
    )
    alert = models.Alert.objects.create(
        rule=rule_of_alerts, raised_at=timezone.now(), threshold=1, value=2, peak=2
    )
    run = verifications.request_run(
        numbers=[("3", "foreign-run")], layout="card", url="", authority=SYSTEM, now=timezone.now()
    )
    asset = assets.create_asset(
        kind=AssetKind.SOURCE,
        draft=assets.AssetDraft(
            name="foreign-source",
            definition={"type": "git", "url": "https://foreign-host/x", "revision": ""},
        ),
        project_id=project.pk,
        authority=SYSTEM,
        now=timezone.now(),
    )
    return {
        **foreign_people(project, stranger),
        "project": project.pk,
        "name": project.name,
        "asset": asset.pk,
        "workload": workload.pk,
        "service": service.pk,
        "key": key.pk,
        "rule": rule.pk,
        "user": stranger.pk,
        "decision": decision.pk,
        "saved": MISSING - 1,
        "request": asked.pk,
        "control": control.pk,
        "run": run.pk,
        "channel": channel.pk,
        "alert_rule": rule_of_alerts.pk,
        "alert": alert.pk,
        "schedule": schedule.pk,
        "replay": replay.pk,
    }


@pytest.fixture
def outside(foreign):
    """Names that nobody of Research may read: projects, departments, work and people of others."""
    projects = models.Project.objects.exclude(department__name=HOME)
    workloads = models.Workload.objects.filter(project__in=projects)
    return {
        *projects.values_list("name", flat=True),
        *models.Department.objects.exclude(name=HOME).values_list("name", flat=True),
        *(name for name in workloads.values_list("name", flat=True) if len(name) > 4),
        "foreigner",
        "foreign-key",
        "foreign-source",
        "foreign-host",
        "foreign-service",
        "foreign-account",
        "foreign-group",
        "foreign-alert",
        "foreign-reason",
    }


def foreign_people(project, stranger):
    program = User.objects.create(username="foreign-account", service=True)
    account = ServiceAccount.objects.create(
        user=program, project=project, created_by="foreigner", created_at=timezone.now()
    )
    group = Group.objects.create(name="foreign-group")
    AccessRule.objects.create(group=group, role=Role.VIEWER, project=project)
    return {
        "group": group.pk,
        "account": account.pk,
        "token": token_of(stranger).pk,
        "service_token": token_of(program).pk,
    }


def token_of(user):
    return AccessToken.objects.create(
        user=user,
        name="foreign-token",
        digest=f"digest of {user.username}",
        created_by="foreigner",
        created_at=timezone.now(),
        expires_at=timezone.now() + timedelta(days=1),
    )


def someone(role):
    user = User.objects.create_user("self", password="someone-of-tests")
    scope = {"department": models.Department.objects.get(name=HOME)}
    if role is not Role.DEPARTMENT_ADMIN:
        scope = {"project": models.Project.objects.get(name=HOME_PROJECT)}
    AccessRule.objects.create(user=user, role=role, **scope)
    return user


SCOPED = [role for role in Role if role is not Role.SYSTEM_ADMIN]


def body(answer):
    if answer.streaming and "Content-Disposition" not in answer:
        return ""  # events, without an end
    return body_of(answer).decode()


def plain(text, *values):
    """The body without what differs by itself: tokens, times, and the id that was asked for."""
    text = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", text)
    text = re.sub(r"X-CSRFToken&quot;: &quot;\w+|X-CSRFToken\": \"\w+", "", text)
    text = re.sub(r"\d{2}:\d{2}(:\d{2})?|\b17\d{11}\b|\b\d+ (?:s|min)\b", "", text)
    for value in values:
        text = re.sub(rf"\b{value}\b", "ID", text)
    return text


@contextmanager
def undone():
    """Take back what is written inside, so that a second request finds what the first found."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def arguments(name):
    return {
        "report_download": ["csv"],
        "quota_export": ["csv"],
        "device": ["h100-03", 6],
    }.get(name, [])


@pytest.mark.parametrize("role", SCOPED)
def test_pages_tell_nothing_of_what_is_outside(client, foreign, outside, role):
    client.force_login(someone(role))
    told = {}
    for name, route in ROUTES.items():
        if not isinstance(route, Page):
            continue
        address = reverse(name, args=arguments(name))
        for ask in ("", *route.asks):
            query = ask.format(id=foreign["project"], name=foreign["name"])
            for headers in ({}, {"HX-Request": "true"}):
                answer = client.get(f"{address}?{query}", headers=headers)
                has_it = route.only is None or role in route.only
                assert (answer.status_code == 404) == (not has_it) or query, (name, query)
                assert answer.status_code < 500, (name, query)
                text = body(answer).replace(query, "").replace(foreign["name"] + '"', '"')
                asked = {foreign["name"], "seg-eval", "foreigner"} if query else set()
                found = {word for word in outside - asked if word in text}
                if found:
                    told[name, query] = found
    assert told == {}


@pytest.mark.parametrize("role", SCOPED)
def test_a_foreign_thing_answers_as_a_missing_one(client, foreign, role):
    client.force_login(someone(role))
    for name, route in ROUTES.items():
        if not isinstance(route, Thing):
            continue
        answers = []
        for number in (numbers := (foreign[route.kind], MISSING)):
            with undone():
                answer = getattr(client, route.method)(reverse(name, args=[number]))
            answers.append((answer.status_code, plain(body(answer), *numbers)))
        # What only system admins change is refused before it is looked for
        refused = name in {"people_change", "group_change", "group_member"}
        assert answers[0][0] in ((403, 404) if refused else (404,)), name
        assert answers[0] == answers[1], name


@pytest.mark.parametrize("role", SCOPED)
def test_a_foreign_project_in_a_form_is_answered_as_a_missing_one(client, foreign, outside, role):
    client.force_login(someone(role))
    before = list(models.ProjectQuota.objects.order_by("pk").values_list("quota_mgpu", "version"))
    for name, route in ROUTES.items():
        if not isinstance(route, Form):
            continue
        answers = []
        for number in (numbers := (foreign[route.kind], MISSING)):
            fields = {
                key.format(id=number): value.format(id=number, saved=MISSING)
                for key, value in route.fields.items()
            }
            with undone():
                answer = client.post(reverse(name), fields, follow=route.follow)
            answers.append((answer.status_code, plain(body(answer), *numbers)))
            assert answer.status_code < 500, name
        assert answers[0] == answers[1], name
        assert not {word for word in outside if word in answers[0][1]}, name
    after = list(models.ProjectQuota.objects.order_by("pk").values_list("quota_mgpu", "version"))
    assert before == after
    assert not models.Workload.objects.filter(name="mine").exists()


def test_nothing_but_sign_in_is_there_for_who_is_not_signed_in(client, foreign):
    for name, route in ROUTES.items():
        if isinstance(route, Public | Elsewhere):
            continue
        args = [foreign[route.kind]] if isinstance(route, Thing) else arguments(name)
        answer = client.get(reverse(name, args=args))
        assert answer.status_code == 302, name
        assert answer.url.startswith("/login"), name


def test_a_researcher_may_not_serve_and_is_told_the_way_out(client, scene):
    client.force_login(someone(Role.RESEARCHER))
    project = models.Project.objects.get(name=HOME_PROJECT)
    # Given the form offers no inference
    assert 'value="inference"' not in client.get(reverse("workload_new")).content.decode()
    # When it is posted all the same, then the answer is 403 with the way out
    fields = WORKLOAD | {"project": str(project.pk), "kind": "inference"}
    answer = client.post(reverse("workload_new"), fields)
    assert answer.status_code == 403
    assert "Send a request to serve" in answer.content.decode()
    assert not models.Workload.objects.filter(name="mine").exists()
    # And a training is accepted
    assert client.post(reverse("workload_new"), fields | {"kind": "training"}).status_code == 302
