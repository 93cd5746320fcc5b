"""What people do with people: make users, end them, and give or take roles over scopes.

Roles are given to users, groups and service accounts alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.apps import apps
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from access.last_admin import PeopleRefused, keeping_an_admin
from access.models import AccessRule, AccessToken, Group, ServiceAccount, User
from access.roles import MAY_GRANT, Role
from access.scopes import Scope, UserAuthority, scope_of
from access.sessions import end_sessions
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role over exactly one scope; neither id: over the whole cluster."""

    role: Role
    department_id: int | None = None
    project_id: int | None = None


@transaction.atomic
def create_user(
    *, username: str, password: str, email: str = "", authority: Authority, now: datetime
) -> User:
    """Make a user, who sees nothing until a rule is given.

    Raises:
        NotPermitted: only system admins.
        PeopleRefused: the name is taken or can't be, or the password is too weak.
    """
    require_system_admin(authority)
    user = User(username=username.strip(), email=email.strip())
    problems = _user_problems(user)
    problems += password_problems(password, user)
    if problems:
        raise PeopleRefused(problems)
    user.set_password(password)
    user.save()
    audit.record(
        authority=authority,
        now=now,
        action="user.create",
        target=user,
        after={"username": user.username, "email": user.email},
    )
    return user


@transaction.atomic
def change_user(
    *, user_id: int, email: str, is_active: bool, authority: Authority, now: datetime
) -> User:
    """Change a user's address, or end or renew the account. An ended one is out within seconds.

    Raises:
        NotFound, NotPermitted: only system admins.
        PeopleRefused: it is one's own account, or the last system admin.
    """
    require_system_admin(authority)
    user = _find_user(user_id)
    if user.is_active and not is_active:
        _refuse_ending_oneself(user, authority)
    before = {"email": user.email, "is_active": user.is_active}
    user.email, user.is_active = email.strip(), is_active
    problems = _user_problems(user)
    if problems:
        raise PeopleRefused(problems)
    with keeping_an_admin(field="is_active", name=user.username):
        user.save(update_fields=["email", "is_active"])
    if not is_active:
        end_sessions(user=user)
        AccessToken.objects.filter(user=user, revoked_at=None).update(revoked_at=now)
    audit.record(
        authority=authority,
        now=now,
        action="user.change",
        target=user,
        before=before,
        after={"email": user.email, "is_active": user.is_active},
    )
    return user


@transaction.atomic
def set_password(*, user_id: int, password: str, authority: Authority, now: datetime) -> User:
    """Set another user's password; its sessions end with it.

    Raises:
        NotFound, NotPermitted: only system admins.
        PeopleRefused: the password is too weak.
    """
    require_system_admin(authority)
    user = _find_user(user_id)
    problems = password_problems(password, user)
    if problems:
        raise PeopleRefused(problems)
    user.set_password(password)
    user.save(update_fields=["password"])
    end_sessions(user=user)
    audit.record(authority=authority, now=now, action="user.password", target=user)
    return user


@transaction.atomic
def grant(
    *,
    user_id: int | None = None,
    group_id: int | None = None,
    grant: Grant,
    authority: Authority,
    now: datetime,
) -> AccessRule:
    """Give a user or a group, one of both, a role over a scope.

    Raises:
        NotFound: no such user or group, or a scope that is not there for the caller.
        NotPermitted: the role is above what the caller may give there.
        PeopleRefused: it has it already, or is a service account of another scope.
    """
    if (user_id is None) == (group_id is None):
        raise PeopleRefused(
            [
                Problem(
                    field="user",
                    code="one_holder",
                    message="A role is given to a user or to a group, one of the two.",
                )
            ]
        )
    holder = _find_group(group_id) if group_id is not None else _find_user(user_id or 0)
    scope = find_scope(grant, authority)
    department_id = department_of(scope)
    require_grant(authority, grant.role, scope, department_id=department_id)
    _refuse_outside_of_account(holder, scope, department_id)
    where: dict[str, object] = {"user" if isinstance(holder, User) else "group": holder}
    where |= _columns(scope)
    if AccessRule.objects.filter(role=grant.role, **where).exists():
        raise PeopleRefused(
            [
                Problem(
                    field="role",
                    code="has_rule",
                    message=f"{holder} has this role there already.",
                    params={"name": str(holder)},
                )
            ]
        )
    rule = AccessRule.objects.create(role=grant.role, **where)
    _record(authority, now, "access.grant", rule)
    return rule


@transaction.atomic
def revoke(*, rule_id: int, authority: Authority, now: datetime) -> None:
    """Take a role away; pages that its holder has open lose it within seconds.

    Raises:
        NotFound: no such rule for the caller.
        NotPermitted: the role is above what the caller may take there.
        PeopleRefused: it is the last system admin's.
    """
    rule = (
        AccessRule.objects.select_for_update(of=("self",))
        .select_related("user", "group", "department", "project")
        .filter(pk=rule_id)
        .first()
    )
    if rule is None or not _sees(authority, rule):
        raise NotFound("access rule")
    scope = scope_of(rule=rule)
    require_grant(authority, Role(rule.role), scope, department_id=department_of(scope))
    _record(authority, now, "access.revoke", rule)
    with keeping_an_admin(field="role", name=rule.holder_name):
        rule.delete()


def grantable_roles(
    *, authority: Authority, scope: Scope, department_id: int | None
) -> frozenset[Role]:
    """Return the roles that the caller may give and take over a scope."""
    if not isinstance(authority, UserAuthority):
        return frozenset(Role) if authority.may(Action.ACCESS) else frozenset()
    covering: set[Scope] = {None, scope}
    if department_id is not None:
        covering.add(("department", department_id))
    found: set[Role] = set()
    for held_scope, role in authority.roles:
        if held_scope in covering:
            found |= MAY_GRANT[role]
    if scope is not None:
        found.discard(Role.SYSTEM_ADMIN)
    return frozenset(found)


def require_system_admin(authority: Authority) -> None:
    """Refuse who is not a system admin.

    Raises:
        NotPermitted.
    """
    if not (authority.may(Action.ACCESS) and authority.may(Action.NODES)):
        raise NotPermitted(
            "Only a system admin may make and change users and groups. Ask one.",
            code="people_are_for_admins",
        )


def require_grant(
    authority: Authority, role: Role, scope: Scope, *, department_id: int | None
) -> None:
    """Refuse a role that the caller may not give or take over a scope.

    Raises:
        NotPermitted.
    """
    if role not in grantable_roles(authority=authority, scope=scope, department_id=department_id):
        raise NotPermitted(
            "You may give and take only roles that are not above your own, inside your own scope. "
            "Ask an admin of the wider scope.",
            code="role_above_own",
        )


def _find_user(user_id: int) -> User:
    user = User.objects.filter(pk=user_id).first()
    if user is None:
        raise NotFound("user")
    return user


def _find_group(group_id: int) -> Group:
    group = Group.objects.filter(pk=group_id).first()
    if group is None:
        raise NotFound("group")
    return group


def _refuse_outside_of_account(
    holder: User | Group, scope: Scope, department_id: int | None
) -> None:
    """Refuse a service account a role outside of the scope that it belongs to."""
    if not (isinstance(holder, User) and holder.service):
        return
    account = ServiceAccount.objects.get(user=holder)
    if account.project_id is not None:
        is_inside = scope == ("project", account.project_id)
    elif account.department_id is not None:
        is_inside = department_id == account.department_id
    else:
        is_inside = True
    if not is_inside:
        raise PeopleRefused(
            [
                Problem(
                    field="scope",
                    code="outside_of_account",
                    message=f"{holder} belongs to {account.project or account.department}: it gets "
                    "roles only there.",
                    params={
                        "name": holder.username,
                        "scope": str(account.project or account.department),
                    },
                )
            ]
        )


def find_scope(grant: Grant, authority: Authority) -> Scope:
    """Return the scope of a grant, if it is there for the caller.

    Raises:
        NotFound.
        PeopleRefused: both a department and a project are given.
    """
    if grant.department_id is not None and grant.project_id is not None:
        raise PeopleRefused(
            [
                Problem(
                    field="scope",
                    code="rule_scope",
                    message="A rule has exactly one scope: the cluster, a department or a project.",
                )
            ]
        )
    if grant.project_id is not None:
        projects = apps.get_model("scheduler", "Project").objects
        project = projects.filter(pk=grant.project_id, deleted_at=None).first()
        if project is None or not authority.sees_project(
            project_id=project.pk, department_id=project.department_id
        ):
            raise NotFound("project")
        return ("project", project.pk)
    if grant.department_id is not None:
        departments = apps.get_model("scheduler", "Department").objects
        if not departments.filter(
            pk=grant.department_id, deleted_at=None
        ).exists() or not authority.sees_department(department_id=grant.department_id):
            raise NotFound("department")
        return ("department", grant.department_id)
    return None


def department_of(scope: Scope) -> int | None:
    """Return the department that a scope is or lies in; None for the cluster."""
    if scope is None:
        return None
    kind, scope_id = scope
    if kind == "department":
        return scope_id
    project = apps.get_model("scheduler", "Project").objects.get(pk=scope_id)
    return int(project.department_id)


def _columns(scope: Scope) -> dict[str, object]:
    if scope is None:
        return {"cluster": True}
    kind, scope_id = scope
    return {f"{kind}_id": scope_id}


def _sees(authority: Authority, rule: AccessRule) -> bool:
    if rule.project is not None:
        return authority.sees_project(
            project_id=rule.project.pk, department_id=rule.project.department_id
        )
    if rule.department_id is not None:
        return authority.sees_department(department_id=rule.department_id)
    return authority.may(Action.ACCESS)


def _refuse_ending_oneself(user: User, authority: Authority) -> None:
    if isinstance(authority, UserAuthority) and authority.user_id == user.pk:
        raise PeopleRefused(
            [
                Problem(
                    field="is_active",
                    code="own_account",
                    message="You can't end your own account. Ask another system admin.",
                )
            ]
        )


def _user_problems(user: User) -> list[Problem]:
    user.password = user.password or "unset"
    try:
        user.full_clean()
    except ValidationError as error:
        return [
            Problem(field=field, code="bad_user", message=" ".join(messages))
            for field, messages in error.message_dict.items()
        ]
    return []


def password_problems(password: str, user: User) -> list[Problem]:
    """Return what is wrong with a new password, in the reader's language."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        return [Problem(field="password", code="weak_password", message=" ".join(error.messages))]
    return []


def _record(authority: Authority, now: datetime, action: str, rule: AccessRule) -> None:
    audit.record(
        authority=authority,
        now=now,
        action=action,
        target=rule,
        after={
            "group" if rule.group else "user": rule.holder_name,
            "role": rule.role,
            "scope": str(rule.project or rule.department or "cluster"),
        },
    )
