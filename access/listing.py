"""Who has which role where, as far as a reader governs it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.apps import apps
from django.db.models import Q, QuerySet

from access.models import AccessRule, User
from access.people import grantable_roles
from access.roles import PERMISSIONS, Role
from access.scopes import Scope, UserAuthority, scope_of
from scheduler.operations.authority import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One role of a person. ``scope_name`` empty: the whole cluster."""

    id: int
    role: str
    scope_kind: str
    scope_name: str
    may_revoke: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """One person with the roles that the reader sees of it."""

    id: int
    username: str
    email: str
    active: bool
    superuser: bool
    last_login: datetime | None
    is_self: bool
    rules: tuple[RuleRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeChoice:
    """A scope in which the reader may give roles."""

    value: str
    kind: str
    name: str
    roles: tuple[str, ...]


def list_people(*, authority: UserAuthority, text: str = "") -> tuple[PersonRow, ...]:
    """Return the people in the reader's scopes; a system admin sees everyone. Three queries."""
    rules: dict[int, list[RuleRow]] = {}
    for rule in _rules(authority):
        rules.setdefault(rule.user_id, []).append(_rule_row(rule, authority))
    users = User.objects.order_by("username")
    if not _sees_everyone(authority):
        users = users.filter(pk__in=rules)
    if text:
        users = users.filter(Q(username__icontains=text) | Q(email__icontains=text))
    return tuple(
        PersonRow(
            id=user.pk,
            username=user.username,
            email=user.email,
            active=user.is_active,
            superuser=user.is_superuser,
            last_login=user.last_login,
            is_self=user.pk == authority.user_id,
            rules=tuple(rules.get(user.pk, ())),
        )
        for user in users
    )


def find_user_id(*, username: str) -> int | None:
    """Return the id of the user of that name."""
    return User.objects.filter(username=username).values_list("pk", flat=True).first()


def names_who_may(*, action: Action, project_id: int, department_id: int) -> tuple[str, ...]:
    """Return the names of those whose role holds an action over a project, to be told of something.

    An account that may do everything without a rule is told where nobody else could be.
    """
    roles = [role.value for role, actions in PERMISSIONS.items() if action in actions]
    rules = AccessRule.objects.filter(
        Q(cluster=True) | Q(department_id=department_id) | Q(project_id=project_id),
        role__in=roles,
        user__is_active=True,
    )
    names = set(rules.values_list("user__username", flat=True))
    if not names:
        everyone = User.objects.filter(is_superuser=True, is_active=True)
        names = set(everyone.values_list("username", flat=True))
    return tuple(sorted(names))


def list_scopes(*, authority: UserAuthority) -> tuple[ScopeChoice, ...]:
    """Return the scopes in which the reader may give roles, the narrowest first."""
    choices: list[ScopeChoice] = []
    projects = apps.get_model("scheduler", "Project").objects.filter(
        authority.visible.projects(), deleted_at=None
    )
    departments = apps.get_model("scheduler", "Department").objects.filter(
        authority.visible.departments(), deleted_at=None
    )
    for project in projects.order_by("name"):
        _add(choices, authority, ("project", project.pk), project.name, project.department_id)
    for department in departments.distinct().order_by("name"):
        _add(choices, authority, ("department", department.pk), department.name, department.pk)
    _add(choices, authority, None, "", None)
    return tuple(choices)


def _add(
    choices: list[ScopeChoice],
    authority: UserAuthority,
    scope: Scope,
    name: str,
    department_id: int | None,
) -> None:
    roles = grantable_roles(authority=authority, scope=scope, department_id=department_id)
    if not roles:
        return
    choices.append(
        ScopeChoice(
            value="cluster" if scope is None else f"{scope[0]}-{scope[1]}",
            kind="cluster" if scope is None else scope[0],
            name=name,
            roles=tuple(role.value for role in Role if role in roles),
        )
    )


def _sees_everyone(authority: UserAuthority) -> bool:
    return authority.may(Action.ACCESS) and authority.may(Action.NODES)


def _rules(authority: UserAuthority) -> QuerySet[AccessRule]:
    rules = AccessRule.objects.select_related("user", "department", "project").order_by("pk")
    if _sees_everyone(authority):
        return rules
    visible = authority.visible
    projects = apps.get_model("scheduler", "Project").objects.filter(visible.projects())
    return rules.filter(
        Q(department_id__in=visible.department_ids) | Q(project__in=projects.values("pk"))
    )


def _rule_row(rule: AccessRule, authority: UserAuthority) -> RuleRow:
    scope = scope_of(rule=rule)
    department_id = rule.project.department_id if rule.project else rule.department_id
    roles = grantable_roles(authority=authority, scope=scope, department_id=department_id)
    return RuleRow(
        id=rule.pk,
        role=rule.role,
        scope_kind="cluster" if scope is None else scope[0],
        scope_name=str(rule.project or rule.department or ""),
        may_revoke=Role(rule.role) in roles,
    )
