"""Groups: made, renamed and filled by system admins or by the identity provider; listed for a reader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from access.last_admin import PeopleRefused, keeping_an_admin
from access.listing import RuleRow, rule_row, rules_for, sees_everyone
from access.models import Group, Membership, User
from access.people import require_system_admin
from access.scopes import UserAuthority
from scheduler.operations import audit
from scheduler.operations.authority import Authority
from scheduler.operations.refused import NotFound, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """One member. ``by_provider``: it comes and goes with the identity provider's word."""

    user_id: int
    username: str
    active: bool
    by_provider: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group with its members and the roles that the reader sees of it."""

    id: int
    name: str
    external_name: str
    members: tuple[MemberRow, ...]
    rules: tuple[RuleRow, ...]


@transaction.atomic
def save_group(
    *,
    name: str,
    external_name: str,
    authority: Authority,
    now: datetime,
    group_id: int | None = None,
) -> Group:
    """Make a group, or change its names. ``external_name`` empty: no provider fills it.

    Raises:
        NotFound, NotPermitted: only system admins.
        PeopleRefused: a name is empty, too long or taken.
    """
    require_system_admin(authority)
    group = Group() if group_id is None else _find(group_id)
    before = {} if group.pk is None else _facts(group)
    group.name, group.external_name = name.strip(), external_name.strip()
    problems = _problems(group)
    if problems:
        raise PeopleRefused(problems)
    group.save()
    audit.record(
        authority=authority,
        now=now,
        action="group.change" if before else "group.create",
        target=group,
        before=before,
        after=_facts(group),
    )
    return group


@transaction.atomic
def delete_group(*, group_id: int, authority: Authority, now: datetime) -> None:
    """Delete a group; its members lose what it gave them within seconds.

    Raises:
        NotFound, NotPermitted: only system admins.
        PeopleRefused: the last system admin is one by this group.
    """
    require_system_admin(authority)
    group = _find(group_id)
    members = list(
        group.memberships.order_by("user__username").values_list("user__username", flat=True)
    )
    audit.record(
        authority=authority,
        now=now,
        action="group.delete",
        target=group,
        before={**_facts(group), "members": members},
    )
    with keeping_an_admin(field="group", name=group.name):
        group.delete()


@transaction.atomic
def add_member(*, group_id: int, user_id: int, authority: Authority, now: datetime) -> Membership:
    """Put a user into a group.

    Raises:
        NotFound, NotPermitted: only system admins.
        PeopleRefused: it is in it, or is a service account, whose roles stay in its own scope.
    """
    require_system_admin(authority)
    group, user = _find(group_id), _find_user(user_id)
    if user.service:
        raise _refused("no_service_in_group", "A service account is in no group.", user.username)
    if group.memberships.filter(user=user).exists():
        raise _refused("is_member", f"{user.username} is in it already.", user.username)
    membership = Membership.objects.create(group=group, user=user)
    _record(authority, now, "group.join", group, user)
    return membership


@transaction.atomic
def remove_member(*, group_id: int, user_id: int, authority: Authority, now: datetime) -> None:
    """Take a user out of a group.

    Raises:
        NotFound, NotPermitted: only system admins.
        PeopleRefused: it is the last system admin, by this group.
    """
    require_system_admin(authority)
    group = _find(group_id)
    membership = group.memberships.select_related("user").filter(user_id=user_id).first()
    if membership is None:
        raise NotFound("member")
    _record(authority, now, "group.leave", group, membership.user)
    with keeping_an_admin(field="group", name=membership.user.username):
        membership.delete()


@transaction.atomic
def follow_provider(
    *, user: User, external_names: Iterable[str], authority: Authority, now: datetime
) -> None:
    """Put a user into the groups that the provider names, and out of those that it no longer does.

    Members that people have put in stay. Nobody is put out who is the last system admin by it.
    """
    named = set(external_names) - {""}
    wanted = {group.pk: group for group in Group.objects.filter(external_name__in=named)}
    present = {each.group_id: each for each in user.memberships.select_related("group")}
    for group_id in wanted.keys() - present.keys():
        Membership.objects.create(group=wanted[group_id], user=user, by_provider=True)
        _record(authority, now, "group.join", wanted[group_id], user)
    for group_id, membership in present.items():
        if membership.by_provider and group_id not in wanted:
            _leave_if_possible(membership, authority, now)


def find_group_id(*, name: str) -> int | None:
    """Return the id of the group of that name."""
    return Group.objects.filter(name=name).values_list("pk", flat=True).first()


def list_groups(*, authority: UserAuthority) -> tuple[GroupRow, ...]:
    """Return the groups with a role in the reader's scopes; a system admin's are all. Three queries."""
    rules: dict[int, list[RuleRow]] = {}
    for rule in rules_for(authority).filter(group__isnull=False):
        rules.setdefault(rule.group_id or 0, []).append(rule_row(rule, authority))
    groups = Group.objects.order_by("name")
    if not sees_everyone(authority):
        groups = groups.filter(pk__in=rules)
    return tuple(
        GroupRow(
            id=group.pk,
            name=group.name,
            external_name=group.external_name,
            members=tuple(_member(each) for each in group.memberships.all()),
            rules=tuple(rules.get(group.pk, ())),
        )
        for group in groups.prefetch_related("memberships__user")
    )


def _leave_if_possible(membership: Membership, authority: Authority, now: datetime) -> None:
    try:
        with transaction.atomic():
            _record(authority, now, "group.leave", membership.group, membership.user)
            with keeping_an_admin(field="group", name=membership.user.username):
                membership.delete()
    except PeopleRefused:
        audit.record(
            authority=authority,
            now=now,
            action="group.leave",
            target=membership.group,
            after={"user": membership.user.username},
            reason="last system admin",
            result="refused",
        )


def _member(membership: Membership) -> MemberRow:
    return MemberRow(
        user_id=membership.user_id,
        username=membership.user.username,
        active=membership.user.is_active,
        by_provider=membership.by_provider,
    )


def _find(group_id: int) -> Group:
    group = Group.objects.select_for_update().filter(pk=group_id).first()
    if group is None:
        raise NotFound("group")
    return group


def _find_user(user_id: int) -> User:
    user = User.objects.filter(pk=user_id).first()
    if user is None:
        raise NotFound("user")
    return user


def _facts(group: Group) -> dict[str, object]:
    return {"name": group.name, "external_name": group.external_name}


def _problems(group: Group) -> list[Problem]:
    problems: list[Problem] = []
    if not 1 <= len(group.name) <= 100 or len(group.external_name) > 200:
        problems.append(
            Problem(
                field="name",
                code="bad_group_name",
                message="Give a name of 1 to 100 characters, and one of at most 200 at the provider.",
            )
        )
    others = Group.objects.exclude(pk=group.pk)
    if others.filter(name=group.name).exists():
        problems.append(_taken("name", group.name))
    if group.external_name and others.filter(external_name=group.external_name).exists():
        problems.append(_taken("external_name", group.external_name))
    return problems


def _taken(field: str, name: str) -> Problem:
    return Problem(
        field=field,
        code="group_name_taken",
        message=f"There is a group called {name} already.",
        params={"name": name},
    )


def _refused(code: str, message: str, name: str) -> PeopleRefused:
    return PeopleRefused(
        [Problem(field="username", code=code, message=message, params={"name": name})]
    )


def _record(authority: Authority, now: datetime, action: str, group: Group, user: User) -> None:
    audit.record(
        authority=authority, now=now, action=action, target=group, after={"user": user.username}
    )
