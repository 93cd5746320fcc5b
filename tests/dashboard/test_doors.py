"""The doors beside the pages, with each role and a foreign scope: admin site, sockets, downloads, gateway."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from django.urls import URLPattern, get_resolver, reverse
from django.utils import timezone

from access.scopes import visibility_of
from dashboard import report_consumer
from dashboard.live_read import read_scope
from dashboard.live_scopes import Message, Scope
from dashboard.live_wire import TOPICS, difference
from gateway import keys
from scheduler import models
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.operations import gateway_keys
from scheduler.operations.authority import SYSTEM as SYSTEM_AUTHORITY
from scheduler.queries import routes
from scheduler.queries.visibility import SYSTEM
from tests.dashboard.test_routes import (  # noqa: F401 - fixtures of the same walk
    HOME_PROJECT,
    MISSING,
    SCOPED,
    foreign,
    outside,
    plain,
    someone,
)
from tests.downloads import body_of

pytestmark = pytest.mark.django_db


# --- The admin site -------------------------------------------------------------------------------


def admin_addresses(pk):
    """Every address of the site, with an id that is there where one is asked for."""
    (site,) = [
        each for each in get_resolver().url_patterns if getattr(each, "namespace", "") == "admin"
    ]

    def walk(patterns, prefix):
        for each in patterns:
            route = prefix + str(each.pattern)
            if isinstance(each, URLPattern):
                yield route
            else:
                yield from walk(each.url_patterns, route)

    for route in walk(site.url_patterns, "/admin/"):
        address = re.sub(r"<path:object_id>|<path:object_id>|<[^>]*id>", str(pk), route)
        address = re.sub(r"<[^>]*>", "scheduler", address)
        address = re.sub(r"\(\?P<\w+>([^)|]*)[^)]*\)", r"scheduler", address)
        yield re.sub(r"[\^$?]|\\Z", "", address)


def test_the_walk_finds_the_site():
    found = set(admin_addresses(1))
    assert {"/admin/", "/admin/scheduler/project/", "/admin/access/user/1/change/"} <= found
    assert len(found) > 60


@pytest.mark.parametrize("role", SCOPED)
def test_the_admin_site_answers_as_an_address_that_is_not_there(client, foreign, role):  # noqa: F811
    client.force_login(someone(role))
    missing = client.get("/no-such-address").content.decode()
    differs = []
    for address in sorted(set(admin_addresses(foreign["project"]))):
        for method in (client.get, client.post):
            answer = method(address)
            if answer.status_code != 404 or plain(answer.content.decode()) != plain(missing):
                differs.append((address, answer.status_code))
    # The site sends an address without its slash, or an object without its page, to the right one
    assert [each for each in differs if each[1] not in (301, 302)] == []
    for address, _status in differs:
        assert client.get(address, follow=True).status_code == 404, address


def test_who_is_not_signed_in_is_sent_to_the_sign_in_page(client, foreign):  # noqa: F811
    for address in sorted(set(admin_addresses(foreign["project"]))):
        answer = client.get(address)
        assert answer.status_code in (301, 302, 404), address
        if answer.status_code == 302:
            assert "/login" in answer.url or answer.url.startswith("/admin/"), address


# --- Sockets --------------------------------------------------------------------------------------


def live(user, pool_name=""):
    scope = Scope(visible=visibility_of(user=user), language="en", zone="", pool_name=pool_name)
    return read_scope(scope)


@pytest.mark.parametrize("topic", sorted(TOPICS))
@pytest.mark.parametrize("role", SCOPED)
def test_each_topic_tells_nothing_of_what_is_outside(foreign, outside, role, topic):  # noqa: F811
    user = someone(role)
    snapshot = live(user)

    def told(parts, kind):
        text = Message(head={"t": kind}, parts=parts).encoded(frozenset({topic}))
        return {word for word in outside if word in text}

    assert told(snapshot.parts, "snap") == set()
    # When something ends out there, then the delta does not tell of it either
    models.Replica.objects.filter(workload__name="seg-eval").update(
        phase=ReplicaPhase.ENDED, ended_at=timezone.now()
    )
    models.Workload.objects.filter(name="seg-eval").update(phase="completed")
    assert told(difference(before=snapshot.parts, after=live(user).parts), "d") == set()


@pytest.mark.parametrize("role", SCOPED)
def test_a_pool_that_is_not_there_for_one_is_shown_as_one_that_is_not_there(foreign, role):  # noqa: F811
    user = someone(role)
    models.NodePool.objects.create(name="verify-secret", scratch=True)
    hidden, missing = live(user, "verify-secret"), live(user, "no-such-pool")
    assert plain(json.dumps(hidden.parts)) == plain(json.dumps(missing.parts))


@pytest.mark.parametrize("role", SCOPED)
def test_the_reports_socket_tells_of_a_foreign_project_as_of_a_missing_one(
    foreign,  # noqa: F811
    outside,  # noqa: F811
    role,
):
    user = someone(role)
    answers = []
    for number in (foreign["project"], MISSING):
        query = f"period=month&project={number}"
        state = report_consumer._state((user.pk, None), query, "en", "")
        answers.append(plain(json.dumps(state), number))
    assert answers[0] == answers[1]
    whole = json.dumps(
        report_consumer._state((user.pk, None), "period=month&group=project", "en", "")
    )
    assert {word for word in outside if word in whole} == set()


# --- Downloads ------------------------------------------------------------------------------------


def rows_of(answer):
    """The rows of a download, which is written by an asynchronous view."""
    body = body_of(answer)
    assert body
    return list(csv.reader(io.StringIO(body.decode("utf-8-sig"))))


@pytest.mark.parametrize("role", SCOPED)
def test_a_download_has_the_rows_of_ones_scope_and_counts_no_others(client, foreign, outside, role):  # noqa: F811
    client.force_login(someone(role))
    address = reverse("report_download", args=["csv"])
    for group in ("project", "workload", "user"):
        rows = rows_of(client.get(address, {"group": group, "period": "month"}))
        assert {word for word in outside for row in rows if word in row} == set(), group
    counts = [
        len(rows_of(client.get(address, {"group": "workload", "project": number})))
        for number in (foreign["project"], MISSING)
    ]
    assert counts[0] == counts[1]


# --- The gateway ----------------------------------------------------------------------------------


def test_a_key_neither_lists_nor_calls_models_of_others(foreign):  # noqa: F811
    """Given a key of nlp-lab and a service of another department, then it is as if it were not there."""
    own = models.Project.objects.get(name=HOME_PROJECT)
    made = gateway_keys.create_key(
        project_id=own.pk,
        terms=gateway_keys.KeyTerms(name="own"),
        authority=SYSTEM_AUTHORITY,
        now=timezone.now(),
    )
    facts = routes.find_key(visible=SYSTEM, digest=made.key.digest, now=timezone.now())
    known = routes.list_routes(visible=SYSTEM, now=timezone.now())
    others = [route for route in known if route.project_id != own.pk]
    assert others
    assert not any(keys.may_use(facts=facts, route=route) for route in others)
