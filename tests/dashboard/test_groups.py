"""Groups: a role of a group is every member's, for as long as they are in it."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse

from access import groups, people
from access.last_admin import PeopleRefused
from access.listing import list_people, names_who_may
from access.models import AccessRule, Group, User
from access.roles import Role
from access.scopes import authority_of, visibility_of
from scheduler import models
from scheduler.operations.authority import SYSTEM, Action, NotPermitted
from tests.dashboard.conftest import NOON, person

pytestmark = pytest.mark.django_db


def project(name):
    return models.Project.objects.get(name=name)


@pytest.fixture
def mei(db):
    return User.objects.create_user("mei", password="someone-of-tests")


@pytest.fixture
def readers(db):
    return groups.save_group(name="Readers", external_name="", authority=SYSTEM, now=NOON)


def put_in(group, user):
    groups.add_member(group_id=group.pk, user_id=user.pk, authority=SYSTEM, now=NOON)


def take_out(group, user):
    groups.remove_member(group_id=group.pk, user_id=user.pk, authority=SYSTEM, now=NOON)


def give(group, role, **scope):
    return people.grant(
        group_id=group.pk, grant=people.Grant(role=role, **scope), authority=SYSTEM, now=NOON
    )


def test_a_member_has_the_groups_role_and_loses_it_with_membership(scene, mei, readers):
    nlp = project("nlp-lab")
    give(readers, Role.RESEARCHER, project_id=nlp.pk)
    assert not visibility_of(user=mei).project_ids
    put_in(readers, mei)
    assert visibility_of(user=mei).project_ids == {nlp.pk}
    assert authority_of(user=mei, door="page").may(Action.WORK, project_id=nlp.pk)
    assert names_who_may(
        action=Action.WORK, project_id=nlp.pk, department_id=nlp.department_id
    ) == ("mei",)
    take_out(readers, mei)
    assert not visibility_of(user=mei).project_ids
    assert not authority_of(user=mei, door="page").may_anywhere(*Action)


def test_own_roles_and_those_of_groups_add_up(scene, mei, readers):
    give(readers, Role.VIEWER, project_id=project("nlp-lab").pk)
    put_in(readers, mei)
    AccessRule.objects.create(user=mei, role=Role.RESEARCHER, project=project("bio-fold"))
    assert len(visibility_of(user=mei).project_ids) == 2


@pytest.mark.parametrize("how", ["member", "group", "rule", "account"])
def test_the_last_system_admin_stays_whatever_makes_them_one(scene, mei, readers, how):
    rule = give(readers, Role.SYSTEM_ADMIN)
    put_in(readers, mei)
    ways = {
        "member": lambda: take_out(readers, mei),
        "group": lambda: groups.delete_group(group_id=readers.pk, authority=SYSTEM, now=NOON),
        "rule": lambda: people.revoke(rule_id=rule.pk, authority=SYSTEM, now=NOON),
        "account": lambda: people.change_user(
            user_id=mei.pk, email="", is_active=False, authority=SYSTEM, now=NOON
        ),
    }
    with pytest.raises(PeopleRefused, match="last system admin"):
        ways[how]()
    assert authority_of(user=mei, door="page").may(Action.NODES)
    # With a second one it is possible
    User.objects.create_superuser("root", password="someone-of-tests")
    ways[how]()


def test_a_rule_has_exactly_one_holder(scene, mei, readers):
    for holder in ({}, {"user": mei, "group": readers}):
        with pytest.raises(IntegrityError), transaction.atomic():
            AccessRule.objects.create(role=Role.VIEWER, cluster=True, **holder)
    give(readers, Role.VIEWER)
    with pytest.raises(PeopleRefused, match="already"):
        give(readers, Role.VIEWER)


def test_only_system_admins_change_groups(scene, mei, readers):
    lead = person("lee", Role.PROJECT_ADMIN, project="nlp-lab")
    by = {"authority": authority_of(user=lead, door="page"), "now": NOON}
    for act in (
        lambda: groups.save_group(name="x", external_name="", **by),
        lambda: groups.delete_group(group_id=readers.pk, **by),
        lambda: groups.add_member(group_id=readers.pk, user_id=lead.pk, **by),
        lambda: groups.remove_member(group_id=readers.pk, user_id=lead.pk, **by),
    ):
        with pytest.raises(NotPermitted):
            act()
    # But a lead gives a group the roles that it may give to people
    assert people.grant(
        group_id=readers.pk,
        grant=people.Grant(role=Role.VIEWER, project_id=project("nlp-lab").pk),
        **by,
    )
    with pytest.raises(NotPermitted):
        people.grant(
            group_id=readers.pk,
            grant=people.Grant(role=Role.ML_ENGINEER, project_id=project("nlp-lab").pk),
            **by,
        )


def test_a_service_account_is_in_no_group(scene, readers):
    program = User.objects.create(username="nightly", service=True)
    with pytest.raises(PeopleRefused, match="no group"):
        put_in(readers, program)


@pytest.mark.parametrize("name", ["", "x" * 101, "Readers"])
def test_a_name_that_can_not_be_is_refused(readers, name):
    with pytest.raises(PeopleRefused):
        groups.save_group(name=name, external_name="", authority=SYSTEM, now=NOON)


def test_the_provider_moves_only_whom_it_put_in(scene, mei, readers):
    staff = groups.save_group(name="Staff", external_name="/staff", authority=SYSTEM, now=NOON)
    put_in(readers, mei)

    def told(*names):
        groups.follow_provider(user=mei, external_names=names, authority=SYSTEM, now=NOON)
        return set(mei.memberships.values_list("group__name", flat=True))

    assert told("/staff", "/unknown", "") == {"Readers", "Staff"}
    assert told() == {"Readers"}
    put_in(staff, mei)
    assert told() == {"Readers", "Staff"}


def test_the_page_shows_groups_of_ones_scope_and_changes_are_on_record(scene, client, admin, mei):
    client.force_login(admin)
    client.post(reverse("group_create"), {"name": "Readers", "external_name": "/readers"})
    group = Group.objects.get()
    client.post(reverse("group_member", args=[group.pk]), {"username": "mei"})
    client.post(
        reverse("people_grant"),
        {
            "to": "group",
            "username": "Readers",
            "role": "viewer",
            "scope": f"project-{project('nlp-lab').pk}",
        },
    )
    page = client.get(reverse("people")).content.decode()
    assert "by the group Readers" in page
    # Its members are in the list of those who govern the scope, and in nobody else's
    lead = person("lee", Role.PROJECT_ADMIN, project="nlp-lab")
    other = person("kim", Role.PROJECT_ADMIN, project="vision-lab")
    seen = {
        user: {row.username for row in list_people(authority=authority_of(user=user, door="page"))}
        for user in (lead, other)
    }
    assert "mei" in seen[lead]
    assert "mei" not in seen[other]
    client.force_login(lead)
    assert "View only" in client.get(reverse("groups")).content.decode()
    client.force_login(other)
    assert "Readers" not in client.get(reverse("groups")).content.decode()
    client.force_login(admin)
    fields = {"username": "mei", "do": "remove"}
    client.post(reverse("group_member", args=[group.pk]), fields)
    client.post(reverse("group_change", args=[group.pk]), {"name": "All", "external_name": ""})
    client.post(reverse("group_change", args=[group.pk]), {"do": "delete"})
    actions = models.AuditEntry.objects.order_by("id").values_list("action", "actor")
    assert list(actions) == [
        (action, "admin")
        for action in (
            "group.create", "group.join", "access.grant", "group.leave", "group.change",
            "group.delete",
        )
    ]  # fmt: skip
