"""Who has which role where, as far as a reader governs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.apps import apps
from django.db.models import Q, QuerySet

from access.models import AccessRule, Membership, User
from access.people import grantable_roles
from access.roles import PERMISSIONS, Role
from access.scopes import Scope, UserAuthority, scope_of
from scheduler.operations.authority import Action
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """One role of a person or a group. ``scope_name`` empty: the whole cluster."""

    id: int
    role: str
    scope_kind: str
    scope_name: str
    may_revoke: bool
    #: The group by which a person has it; empty: its own.
    by_group: str = ""


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
    """Return the people in the reader's scopes; a system admin sees everyone. Four queries."""
    rules = _rules_of_people(authority)
    users = User.objects.filter(service=False).order_by("username")
    if not sees_everyone(authority):
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


def names_who_may(
    *, action: Action, project_id: int | None = None, department_id: int | None = None
) -> tuple[str, ...]:
    """Return the names of those whose role holds an action over a project, to be told of something.

    Without a project: over a department; with neither: over the cluster. An account that may do
    everything without a rule is told where nobody else could be.
    """
    roles = [role.value for role, actions in PERMISSIONS.items() if action in actions]
    return _names(_over(project_id, department_id).filter(role__in=roles))


def names_who_see(*, project_id: int | None, department_id: int | None) -> tuple[str, ...]:
    """Return the names of those who have any role over a project or department."""
    return _names(_over(project_id, department_id))


def names_of_all() -> tuple[str, ...]:
    """Return the names of those who have any role anywhere."""
    return _names(AccessRule.objects.all())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """One person's role over a unit: its own, or one over the unit's department."""

    username: str
    role: str
    by_group: str
    by_department: bool


def list_members(
    *, authority: UserAuthority, project_id: int | None, department_id: int
) -> tuple[MemberRow, ...] | None:
    """Return who has a role over a project, or over a department; None: not the caller's to see.

    Roles over the whole cluster are everybody's and not told here. Three queries.
    """
    if not authority.may(Action.ACCESS, project_id=project_id, department_id=department_id):
        return None
    condition = Q(department_id=department_id)
    if project_id is not None:
        condition |= Q(project_id=project_id)
    rules = list(AccessRule.objects.filter(condition).select_related("user", "group"))
    held = [(rule, rule.user) for rule in rules if rule.user is not None]
    by_group: dict[int, list[AccessRule]] = {}
    for rule in rules:
        if rule.group_id is not None:
            by_group.setdefault(rule.group_id, []).append(rule)
    for one in Membership.objects.filter(group__in=by_group).select_related("user"):
        held += [(rule, one.user) for rule in by_group[one.group_id]]
    found = [_member(rule, user, project_id) for rule, user in held if user.is_active]
    order = list(Role)
    return tuple(
        sorted(
            found, key=lambda row: (row.by_department, order.index(Role(row.role)), row.username)
        )
    )


def _member(rule: AccessRule, user: User, project_id: int | None) -> MemberRow:
    return MemberRow(
        username=user.username,
        role=rule.role,
        by_group="" if rule.group is None else rule.group.name,
        by_department=project_id is not None and rule.project_id is None,
    )


def _over(project_id: int | None, department_id: int | None) -> QuerySet[AccessRule]:
    """Return the rules that cover a project, a department, or the cluster."""
    condition = Q(cluster=True)
    if department_id is not None:
        condition |= Q(department_id=department_id)
    if project_id is not None:
        condition |= Q(project_id=project_id)
    return AccessRule.objects.filter(condition)


def _names(rules: QuerySet[AccessRule]) -> tuple[str, ...]:
    """Return the people of rules, by themselves or by a group; service accounts read nothing."""
    members = Membership.objects.filter(group__in=rules.values("group_id"))
    people = User.objects.filter(is_active=True, service=False).filter(
        Q(pk__in=rules.values("user_id")) | Q(pk__in=members.values("user_id"))
    )
    names = set(people.values_list("username", flat=True))
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


def _rules_of_people(authority: UserAuthority) -> dict[int, list[RuleRow]]:
    """Return the rules by person: its own, and those of its groups."""
    found: dict[int, list[RuleRow]] = {}
    of_groups: dict[int, list[RuleRow]] = {}
    for rule in rules_for(authority):
        row = rule_row(rule, authority)
        if rule.user_id is not None:
            found.setdefault(rule.user_id, []).append(row)
        if rule.group is not None:
            by_group = replace(row, by_group=rule.group.name, may_revoke=False)
            of_groups.setdefault(rule.group.pk, []).append(by_group)
    members = Membership.objects.filter(group__in=of_groups).order_by("group__name")
    for user_id, group_id in members.values_list("user_id", "group_id"):
        found.setdefault(user_id, []).extend(of_groups[group_id])
    return found


def sees_everyone(authority: UserAuthority) -> bool:
    """Test whether the reader is a system admin, for whom all people are there."""
    return authority.may(Action.ACCESS) and authority.may(Action.NODES)


def rules_for(authority: UserAuthority) -> QuerySet[AccessRule]:
    """Return the rules over the reader's scopes; a system admin's are all."""
    rules = AccessRule.objects.select_related("user", "group", "department", "project").order_by(
        "pk"
    )
    if sees_everyone(authority):
        return rules
    visible = authority.visible
    projects = apps.get_model("scheduler", "Project").objects.filter(visible.projects())
    return rules.filter(
        Q(department_id__in=visible.department_ids) | Q(project__in=projects.values("pk"))
    )


def rule_row(rule: AccessRule, authority: UserAuthority) -> RuleRow:
    """Return one rule as its reader sees it."""
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


def list_own_scopes(*, visible: Visibility) -> list[tuple[str, str]]:
    """Return the departments and projects that a reader sees, as (value, name): for pickers."""
    departments = apps.get_model("scheduler", "Department").objects.filter(deleted_at=None)
    projects = apps.get_model("scheduler", "Project").objects.filter(deleted_at=None)
    if not visible.cluster:
        departments = departments.filter(pk__in=visible.department_ids)
    if not visible.scratch:
        departments = departments.filter(scratch=False)
    found = [(f"department-{each.pk}", each.name) for each in departments.order_by("name")]
    own = projects.filter(visible.projects()).order_by("name")
    return [*found, *((f"project-{each.pk}", each.name) for each in own)]
