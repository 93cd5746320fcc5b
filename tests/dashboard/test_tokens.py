"""Access tokens and service accounts: never more than their owner may, at each moment."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from access import people, service_accounts, tokens
from access.last_admin import PeopleRefused
from access.models import AccessRule, AccessToken, User
from access.roles import Role
from access.scopes import authority_of
from access.token_list import list_own
from scheduler import models
from scheduler.operations.authority import SYSTEM, Action, NotPermitted
from scheduler.operations.refused import NotFound
from tests.dashboard.conftest import NOON, person

pytestmark = pytest.mark.django_db


def project(name):
    return models.Project.objects.get(name=name)


def department(name):
    return models.Department.objects.get(name=name)


def page_of(user):
    return authority_of(user=user, door="page")


def token_for(user, *, scope=None, read_only=False, days=30):
    terms = tokens.TokenTerms(name="sweep", days=days, scope=scope, read_only=read_only)
    return tokens.create_own(terms=terms, authority=page_of(user), now=NOON)


def bearer(made, *, at=NOON):
    return tokens.bearer_of(authorization=f"Bearer {made.secret}", now=at, address="10.1.2.3")


@pytest.fixture
def head(scene):
    user = User.objects.create_user("wen", password="someone-of-tests")
    AccessRule.objects.create(
        user=user, role=Role.DEPARTMENT_ADMIN, department=department("Research")
    )
    return user


def test_a_token_is_kept_as_a_digest_and_acts_for_its_owner(researcher):
    made = token_for(researcher)
    # Only a digest of it is in the table
    stored = AccessToken.objects.get()
    assert made.secret not in " ".join(map(str, vars(stored).values()))
    # And it is whoever made it, at this door
    came = bearer(made)
    nlp = project("nlp-lab")
    assert came.authority.name == "lin"
    assert came.authority.door == "api"
    assert came.visible.project_ids == {nlp.pk}
    assert came.authority.may(Action.WORK, project_id=nlp.pk)
    assert not came.authority.may(Action.SERVE, project_id=nlp.pk)
    stored.refresh_from_db()
    assert (stored.last_used_at, stored.last_used_from) == (NOON, "10.1.2.3")


def test_a_token_loses_at_once_what_its_owner_loses(researcher):
    made = token_for(researcher)
    people.revoke(rule_id=AccessRule.objects.get().pk, authority=SYSTEM, now=NOON)
    came = bearer(made)
    assert not came.visible.project_ids
    assert not came.authority.may_anywhere(*Action)


@pytest.mark.parametrize("end", ["revoked", "expired", "ended", "unknown", "empty", "gateway"])
def test_a_token_that_is_not_valid_says_the_same_whatever_the_cause(researcher, end):
    made = token_for(researcher, days=1)
    header, at = f"Bearer {made.secret}", NOON
    if end == "revoked":
        tokens.revoke_own(token_id=made.token.pk, authority=page_of(researcher), now=NOON)
    elif end == "expired":
        at = NOON + timedelta(days=1)
    elif end == "ended":
        people.change_user(
            user_id=researcher.pk, email="", is_active=False, authority=SYSTEM, now=NOON
        )
    else:
        header = {"unknown": f"Bearer {made.secret}x", "empty": "", "gateway": "Bearer tg-x"}[end]
    with pytest.raises(tokens.BadToken) as said:
        tokens.bearer_of(authorization=header, now=at)
    wanted = "Give an access token" if end == "empty" else "not valid: it is unknown, revoked or"
    assert wanted in str(said.value)


def test_an_account_that_comes_back_has_none_of_its_old_tokens(researcher):
    made = token_for(researcher)
    for is_active in (False, True):
        people.change_user(
            user_id=researcher.pk, email="", is_active=is_active, authority=SYSTEM, now=NOON
        )
    with pytest.raises(tokens.BadToken):
        bearer(made)


def test_a_token_for_one_project_has_nothing_outside_of_it(head):
    nlp, bio = project("nlp-lab"), project("bio-fold")
    came = bearer(token_for(head, scope=("project", nlp.pk)))
    research = department("Research").pk
    assert came.visible.project_ids == {nlp.pk}
    assert not came.visible.department_ids
    assert came.authority.may(Action.PROJECT_QUOTA, project_id=nlp.pk, department_id=research)
    assert not came.authority.may(Action.WORK, project_id=bio.pk, department_id=research)
    # Nor may it give roles outside of it
    assert not people.grantable_roles(
        authority=came.authority, scope=("project", bio.pk), department_id=research
    )


def test_a_token_for_one_project_lists_itself_and_those_inside_of_it(head):
    nlp, bio = project("nlp-lab"), project("bio-fold")
    whole = token_for(head)
    ones = {
        name: token_for(head, scope=scope)
        for name, scope in {
            "nlp": ("project", nlp.pk),
            "bio": ("project", bio.pk),
            "research": ("department", department("Research").pk),
        }.items()
    }

    def listed(made):
        return {row.id for row in list_own(authority=bearer(made).authority, now=NOON)}

    ids = {name: made.token.pk for name, made in ones.items()}
    assert listed(whole) == {whole.token.pk, *ids.values()}
    assert listed(ones["research"]) == set(ids.values())
    assert listed(ones["nlp"]) == {ids["nlp"]}


def test_an_admins_token_for_one_department_is_no_system_admin(scene, admin):
    dev = department("Dev and test")
    came = bearer(token_for(admin, scope=("department", dev.pk)))
    assert came.visible.department_ids == {dev.pk}
    assert not came.visible.cluster
    assert not came.authority.may(Action.NODES)
    assert came.authority.may(Action.WORK, project_id=1, department_id=dev.pk)
    research = department("Research").pk
    assert not came.authority.may(Action.WORK, department_id=research)
    with pytest.raises(NotPermitted):
        people.create_user(username="x", password="y", authority=came.authority, now=NOON)


def test_a_token_for_a_foreign_scope_can_not_be_made(researcher):
    for scope in (("project", project("vision-lab").pk), ("project", 987_654)):
        with pytest.raises(NotFound, match="scope"):
            token_for(researcher, scope=scope)


def test_a_token_only_for_reading_changes_nothing(head):
    came = bearer(token_for(head, read_only=True))
    assert came.visible.department_ids
    assert not came.authority.may_anywhere(*(set(Action) - {Action.AUDIT}))
    assert came.authority.may_anywhere(Action.AUDIT)
    with pytest.raises(NotPermitted, match="only read"):
        came.refuse_changes()


def test_a_token_makes_no_tokens(head):
    came = bearer(token_for(head))
    terms = tokens.TokenTerms(name="other", days=300)
    with pytest.raises(NotPermitted, match="Sign in"):
        tokens.create_own(terms=terms, authority=came.authority, now=NOON)
    with pytest.raises(NotPermitted, match="Sign in"):
        service_accounts.create_account(
            name="x", purpose="", scope=None, authority=came.authority, now=NOON
        )


@pytest.mark.parametrize(("name", "days"), [("", 30), ("x" * 64, 30), ("x", 0), ("x", 366)])
def test_terms_that_can_not_be_are_refused(researcher, name, days):
    with pytest.raises(PeopleRefused):
        tokens.create_own(
            terms=tokens.TokenTerms(name=name, days=days), authority=page_of(researcher), now=NOON
        )


def test_one_user_has_a_bounded_number_of_tokens(researcher, monkeypatch):
    monkeypatch.setattr(tokens, "MOST_TOKENS", 2)
    first = token_for(researcher)
    token_for(researcher)
    with pytest.raises(PeopleRefused, match="2 tokens already"):
        token_for(researcher)
    tokens.revoke_own(token_id=first.token.pk, authority=page_of(researcher), now=NOON)
    token_for(researcher)


def test_the_api_counts_the_requests_of_a_token_and_records_what_its_role_forbids(
    client, researcher, settings
):
    settings.API_PER_MINUTE = 3
    made = token_for(researcher, read_only=True, days=300)
    AccessToken.objects.update(expires_at=timezone.now() + timedelta(days=1))
    bearer_header = {"Authorization": f"Bearer {made.secret}"}
    workload = models.Workload.objects.get(name="nlp-pre")
    answers = [
        client.get("/api/v1/workloads", headers=bearer_header),
        client.get(f"/api/v1/workloads/{workload.pk}", headers=bearer_header),
        client.get("/api/v1/workloads", headers=bearer_header),
        client.get("/api/v1/workloads", headers=bearer_header),
    ]
    assert [each.status_code for each in answers] == [200, 200, 200, 429]
    assert "Try again in" in answers[-1].json()["message"]
    # What a role forbids is on record from this door too
    viewer = person("vic", Role.VIEWER, project="nlp-lab")
    held = token_for(viewer, days=300)
    AccessToken.objects.update(expires_at=timezone.now() + timedelta(days=1))
    answer = client.post(
        f"/api/v1/workloads/{workload.pk}/stop", headers={"Authorization": f"Bearer {held.secret}"}
    )
    assert answer.status_code == 403
    entry = models.AuditEntry.objects.get(result="refused")
    assert (entry.actor, entry.door, entry.reason) == ("vic", "api", "work_is_view_only")


def test_the_page_shows_the_secret_once_and_both_are_on_record(client, researcher):
    client.force_login(researcher)
    answer = client.post(reverse("token_create"), {"name": "sweep", "days": "7"})
    secret = re.search(r"data-secret>(tgat_[\w-]+)<", answer.content.decode()).group(1)
    assert AccessToken.objects.get().expires_at > timezone.now() + timedelta(days=6)
    page = client.get(reverse("account")).content.decode()
    assert secret not in page
    assert secret[:10] in page
    client.post(reverse("token_revoke", args=[AccessToken.objects.get().pk]))
    assert secret[:10] not in client.get(reverse("account")).content.decode()
    entries = models.AuditEntry.objects.order_by("id")
    assert [(e.action, e.actor) for e in entries] == [
        ("token.create", "lin"),
        ("token.revoke", "lin"),
    ]
    assert secret not in str(list(entries.values()))


# --- Service accounts -----------------------------------------------------------------------------


def account_of(user, scope, name="nightly"):
    return service_accounts.create_account(
        name=name, purpose="sweeps", scope=scope, authority=page_of(user), now=NOON
    )


def test_a_service_account_has_roles_only_inside_its_scope_and_no_password(scene, head, client):
    nlp = project("nlp-lab")
    account = account_of(head, ("project", nlp.pk))
    assert account.user.username == "nightly.nlp-lab"
    assert not account.user.has_usable_password()
    people.grant(
        user_id=account.user_id,
        grant=people.Grant(role=Role.RESEARCHER, project_id=nlp.pk),
        authority=page_of(head),
        now=NOON,
    )
    for outside in (
        people.Grant(role=Role.VIEWER, project_id=project("bio-fold").pk),
        people.Grant(role=Role.VIEWER, department_id=nlp.department_id),
        people.Grant(role=Role.VIEWER),
    ):
        with pytest.raises(PeopleRefused, match="only there"):
            people.grant(user_id=account.user_id, grant=outside, authority=SYSTEM, now=NOON)
    made = service_accounts.create_token(
        account_id=account.pk,
        terms=tokens.TokenTerms(name="cron", days=90),
        authority=page_of(head),
        now=NOON,
    )
    assert bearer(made).authority.may(Action.WORK, project_id=nlp.pk)
    # Its end is the end of its tokens
    service_accounts.end_account(account_id=account.pk, authority=page_of(head), now=NOON)
    with pytest.raises(tokens.BadToken):
        bearer(made)


def test_nobody_makes_a_token_of_an_account_that_may_more_than_they(scene, admin):
    nlp = project("nlp-lab")
    lead = person("lee", Role.PROJECT_ADMIN, project="nlp-lab")
    account = account_of(lead, ("project", nlp.pk))
    terms = tokens.TokenTerms(name="cron", days=90)
    assert service_accounts.create_token(
        account_id=account.pk, terms=terms, authority=page_of(lead), now=NOON
    )
    # When someone above gives it more than the lead has
    people.grant(
        user_id=account.user_id,
        grant=people.Grant(role=Role.DEPARTMENT_ADMIN, project_id=nlp.pk),
        authority=page_of(admin),
        now=NOON,
    )
    # Then the lead makes no further token of it
    with pytest.raises(NotPermitted, match="may more than you"):
        service_accounts.create_token(
            account_id=account.pk, terms=terms, authority=page_of(lead), now=NOON
        )
    row = service_accounts.list_accounts(authority=page_of(lead), now=NOON)[0]
    assert not row.may_make_tokens


def test_accounts_of_other_scopes_are_not_there(scene, head, admin, researcher):
    foreign = account_of(admin, ("project", project("vision-lab").pk))
    terms = tokens.TokenTerms(name="cron", days=90)
    for account_id in (foreign.pk, 987_654):
        with pytest.raises(NotFound, match="service account"):
            service_accounts.create_token(
                account_id=account_id, terms=terms, authority=page_of(head), now=NOON
            )
    assert not service_accounts.list_accounts(authority=page_of(head), now=NOON)
    # A researcher governs none, its own project's included
    own = account_of(admin, ("project", project("nlp-lab").pk))
    with pytest.raises(NotPermitted):
        service_accounts.end_account(account_id=own.pk, authority=page_of(researcher), now=NOON)


def test_an_accounts_roles_beyond_the_readers_scopes_are_not_shown(scene, admin, head):
    nlp, vision = project("nlp-lab"), project("vision-lab")
    account = account_of(admin, ("department", nlp.department_id))
    for each in (nlp, vision):  # vision-lab was of the department when the role was given
        AccessRule.objects.create(user=account.user, role=Role.VIEWER, project=each)
    for reader, told in ((head, {"nlp-lab"}), (admin, {"nlp-lab", "vision-lab"})):
        (row,) = service_accounts.list_accounts(authority=page_of(reader), now=NOON)
        assert {rule.scope_name for rule in row.rules} == told
        # The role that is not shown counts nonetheless
        assert row.may_make_tokens == (reader is admin)


def test_a_service_account_is_no_last_admin(scene, admin):
    account = account_of(admin, None, name="deploy")
    people.grant(
        user_id=account.user_id,
        grant=people.Grant(role=Role.SYSTEM_ADMIN),
        authority=page_of(admin),
        now=NOON,
    )
    with pytest.raises(PeopleRefused, match="last system admin"):
        people.change_user(user_id=admin.pk, email="", is_active=False, authority=SYSTEM, now=NOON)


def test_accounts_are_made_and_ended_on_their_page(client, head):
    client.force_login(head)
    scope = f"project-{project('nlp-lab').pk}"
    client.post(reverse("service_account_create"), {"name": "nightly", "scope": scope})
    account = User.objects.get(username="nightly.nlp-lab").service_account
    made = client.post(
        reverse("service_token_create", args=[account.pk]), {"name": "cron", "days": "9"}
    )
    assert "data-secret>tgat_" in made.content.decode()
    client.post(reverse("service_token_revoke", args=[AccessToken.objects.get().pk]))
    assert AccessToken.objects.get().revoked_at
    client.post(reverse("service_account_end", args=[account.pk]))
    assert not User.objects.get(username="nightly.nlp-lab").is_active
    entries = models.AuditEntry.objects.order_by("id").values_list("action", "project_id")
    assert list(entries) == [
        (action, project("nlp-lab").pk)
        for action in (
            "service_account.create",
            "token.create",
            "token.revoke",
            "service_account.end",
        )
    ]
