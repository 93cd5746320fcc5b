"""People and roles: given inside one's own scope, none above one's own, gone within seconds."""

from __future__ import annotations

import pytest
from django.urls import reverse

from access import people
from access.models import AccessRule, User
from access.roles import Role
from access.scopes import authority_of, visibility_of
from scheduler import models
from scheduler.operations.authority import SYSTEM, NotPermitted
from scheduler.operations.refused import NotFound
from tests.dashboard.conftest import NOON, person
from tests.downloads import body_of

pytestmark = pytest.mark.django_db


def department(name):
    return models.Department.objects.get(name=name)


def project(name):
    return models.Project.objects.get(name=name)


def head_of(name):
    user = User.objects.create_user("wen", password="someone-of-tests")
    AccessRule.objects.create(user=user, role=Role.DEPARTMENT_ADMIN, department=department(name))
    return user


def give(by, to, role, **scope):
    return people.grant(
        user_id=to.pk,
        grant=people.Grant(role=role, **scope),
        authority=authority_of(user=by, door="page"),
        now=NOON,
    )


@pytest.fixture
def mei(db):
    return User.objects.create_user("mei", password="someone-of-tests")


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.SYSTEM_ADMIN])
def test_a_department_admin_gives_every_role_but_the_highest_in_its_own_department(
    scene, mei, role
):
    wen = head_of("Research")
    assert give(wen, mei, role, department_id=department("Research").pk)
    assert give(wen, mei, role, project_id=project("nlp-lab").pk)


def test_nobody_gives_rights_above_or_outside_of_their_own(scene, mei):
    wen = head_of("Research")
    with pytest.raises(NotPermitted):
        give(wen, mei, Role.SYSTEM_ADMIN)
    with pytest.raises(NotPermitted):
        give(wen, mei, Role.VIEWER)
    # A foreign scope is not there at all, as one that does not exist
    for scope in ({"project_id": project("vision-lab").pk}, {"project_id": 987_654}):
        with pytest.raises(NotFound, match="project"):
            give(wen, mei, Role.VIEWER, **scope)
    lead = person("lee", Role.PROJECT_ADMIN, project="nlp-lab")
    assert give(lead, mei, Role.RESEARCHER, project_id=project("nlp-lab").pk)
    for role in (Role.ML_ENGINEER, Role.PROJECT_ADMIN, Role.DEPARTMENT_ADMIN):
        with pytest.raises(NotPermitted):
            give(lead, mei, role, project_id=project("nlp-lab").pk)


def test_nobody_takes_a_role_that_they_could_not_give(scene):
    lead = person("lee", Role.PROJECT_ADMIN, project="nlp-lab")
    other = person("kim", Role.PROJECT_ADMIN, project="nlp-lab")
    rule = AccessRule.objects.get(user=other)
    with pytest.raises(NotPermitted):
        people.revoke(rule_id=rule.pk, authority=authority_of(user=lead, door="page"), now=NOON)
    foreign = AccessRule.objects.get(user=person("ann", Role.VIEWER, project="vision-lab"))
    for rule_id in (foreign.pk, 987_654):
        with pytest.raises(NotFound, match="access rule"):
            people.revoke(rule_id=rule_id, authority=authority_of(user=lead, door="page"), now=NOON)


def test_the_last_system_admin_stays(scene, mei):
    rule = people.grant(
        user_id=mei.pk, grant=people.Grant(role=Role.SYSTEM_ADMIN), authority=SYSTEM, now=NOON
    )
    with pytest.raises(people.PeopleRefused, match="last system admin"):
        people.revoke(rule_id=rule.pk, authority=SYSTEM, now=NOON)
    with pytest.raises(people.PeopleRefused, match="last system admin"):
        people.change_user(user_id=mei.pk, email="", is_active=False, authority=SYSTEM, now=NOON)


def test_a_role_that_is_taken_away_is_gone_at_once_from_sight_and_from_rights(scene):
    lin = person("lin", Role.RESEARCHER, project="nlp-lab")
    assert visibility_of(user=lin).project_ids
    people.revoke(rule_id=AccessRule.objects.get(user=lin).pk, authority=SYSTEM, now=NOON)
    assert not visibility_of(user=lin).project_ids


def test_an_ended_account_is_signed_out_at_its_next_request(scene, client, researcher):
    client.force_login(researcher)
    assert client.get(reverse("overview")).status_code == 200
    people.change_user(user_id=researcher.pk, email="", is_active=False, authority=SYSTEM, now=NOON)
    assert client.get(reverse("overview")).status_code == 302


def test_the_page_shows_only_people_in_ones_scope_and_a_system_admin_everyone(
    scene, client, admin, mei, researcher
):
    person("ann", Role.VIEWER, project="vision-lab")
    wen = head_of("Research")
    client.force_login(wen)
    own = client.get(reverse("people")).content.decode()
    assert "lin" in own
    assert "ann" not in own.split("<tbody>")[1]
    assert reverse("people_create") not in own
    client.force_login(admin)
    everyone = client.get(reverse("people")).content.decode()
    assert all(name in everyone for name in ("ann", "mei", "wen", "lin"))


def test_giving_and_taking_on_the_page_is_on_record(scene, client, admin, mei):
    client.force_login(admin)
    fields = {"username": "mei", "role": "researcher", "scope": f"project-{project('nlp-lab').pk}"}
    client.post(reverse("people_grant"), fields)
    rule = AccessRule.objects.get(user=mei)
    client.post(reverse("people_revoke", args=[rule.pk]))
    entries = models.AuditEntry.objects.order_by("id")
    assert [(e.action, e.actor, e.address) for e in entries] == [
        ("access.grant", "admin", "127.0.0.1"),
        ("access.revoke", "admin", "127.0.0.1"),
    ]
    assert entries[0].project_id == project("nlp-lab").pk
    assert entries[0].department_id == department("Research").pk


def test_the_log_is_for_admins_of_its_scope_and_offered_as_csv(scene, client, admin, mei):
    client.force_login(admin)
    for name in ("nlp-lab", "vision-lab"):
        client.post(
            reverse("people_grant"),
            {"username": "mei", "role": "viewer", "scope": f"project-{project(name).pk}"},
        )
    page = client.get(reverse("audit"), {"action": "access.grant"}).content.decode()
    assert page.count("<tr><td") == 2
    # A department admin reads what is about its own scope, nobody else has the page
    client.force_login(head_of("Research"))
    own = client.get(reverse("audit")).content.decode()
    assert "nlp-lab" in own
    assert "vision-lab" not in own
    rows = body_of(client.get(reverse("audit_export"))).decode()
    assert len(rows.strip().splitlines()) == 2
    # A day that is none, or beyond what clocks can tell, is named, and no file pretends to know it
    for day in ("2026-13-45", "9999-12-31", "0001-01-01"):
        page = client.get(reverse("audit"), {"to": day}).content.decode()
        assert f"There is no to={day}: it was left out." in page
        assert client.get(reverse("audit_export"), {"to": day}).status_code == 400
    client.force_login(person("lee", Role.PROJECT_ADMIN, project="nlp-lab"))
    assert client.get(reverse("audit")).status_code == 404


def test_the_log_is_paged_without_gaps_or_doubles(scene, client, admin):
    models.AuditEntry.objects.bulk_create(
        models.AuditEntry(at=NOON, actor="x", door="page", action="a.b", object_name=f"o{n:03}")
        for n in range(120)
    )
    client.force_login(admin)
    seen, query = [], {}
    while True:
        answer = client.get(reverse("audit"), query)
        page = answer.context["page"]
        seen += [row.object_name for row in page.rows]
        if page.next_before_id is None:
            break
        query = {"before": page.next_before_id}
    assert seen == [f"o{n:03}" for n in reversed(range(120))]
