"""From a user to what it may see and do: the Visibility that queries take, the Authority of operations."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.apps import apps
from django.db.models import Q, QuerySet

from access.models import AccessRule, Membership, User
from access.roles import PERMISSIONS, Role
from scheduler.operations.authority import Action
from scheduler.queries.settings import read_settings
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility

NOBODY = Visibility()
#: None is the cluster, ("department", id) and ("project", id) the others.
Scope = tuple[str, int] | None


def visibility_of(*, user: User) -> Visibility:
    """Return what ``user`` may see now. At most two queries; none for a superuser or an inactive user.

    Scratch trees are seen only by whom a rule inside one of them names.
    """
    if not user.is_active:
        return NOBODY
    if user.is_superuser:
        return WHOLE_CLUSTER
    rules = list(
        _rules(user).values_list(
            "cluster",
            "department_id",
            "project_id",
            "department__scratch",
            "project__department__scratch",
        )
    )
    scratch = any(rule[3] or rule[4] for rule in rules)
    if any(rule[0] for rule in rules):
        return Visibility(cluster=True, scratch=scratch)
    return Visibility(
        department_ids=frozenset(rule[1] for rule in rules if rule[1] is not None),
        project_ids=frozenset(rule[2] for rule in rules if rule[2] is not None),
        scratch=scratch,
        hides_others=not read_settings().show_others_in_use,
    )


def with_scratch(*, user: User) -> Visibility | None:
    """Return what a system admin sees with the scratch trees of verifications; None for others."""
    may = authority_of(user=user, door="page").may(Action.NODES)
    return Visibility(cluster=True, scratch=True) if may else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAuthority:
    """A signed-in user at one door. Rights add up over its rules."""

    name: str
    door: str
    visible: Visibility
    #: Actions by scope.
    grants: tuple[tuple[Scope, frozenset[Action]], ...]
    #: The roles behind them, by scope.
    roles: tuple[tuple[Scope, Role], ...] = ()
    #: The user itself, and where the request came from.
    user_id: int = 0
    address: str = ""
    #: The access token that it came by; 0: a person that is signed in.
    token_id: int = 0
    #: It is cut to one scope, so that its user may see more.
    narrowed: bool = False

    def may(
        self, action: Action, *, project_id: int | None = None, department_id: int | None = None
    ) -> bool:
        """Test whether any rule that covers the scope holds the action."""
        scopes: set[Scope] = {None}
        if project_id is not None:
            scopes.add(("project", project_id))
        if department_id is not None:
            scopes.add(("department", department_id))
        return any(scope in scopes and action in actions for scope, actions in self.grants)

    def may_anywhere(self, *actions: Action) -> bool:
        """Test whether any rule, whatever its scope, holds one of the actions."""
        return any(action in held for _scope, held in self.grants for action in actions)

    def sees_project(self, *, project_id: int, department_id: int) -> bool:
        """Test whether the project is in one of its scopes."""
        return (
            self.visible.cluster
            or project_id in self.visible.project_ids
            or department_id in self.visible.department_ids
        )

    def sees_department(self, *, department_id: int) -> bool:
        """Test whether a rule covers the whole department."""
        return self.visible.cluster or department_id in self.visible.department_ids


def authority_of(*, user: User, door: str, address: str = "", token_id: int = 0) -> UserAuthority:
    """Return the authority of ``user`` as it is now. At most three queries."""
    roles: list[tuple[Scope, Role]] = []
    if user.is_active and user.is_superuser:
        roles.append((None, Role.SYSTEM_ADMIN))
    elif user.is_active:
        roles = [(scope_of(rule=rule), Role(rule.role)) for rule in _rules(user)]
    return UserAuthority(
        name=user.get_username(),
        door=door,
        visible=visibility_of(user=user),
        grants=tuple((scope, PERMISSIONS[role]) for scope, role in roles),
        roles=tuple(roles),
        user_id=user.pk,
        address=address,
        token_id=token_id,
    )


def narrowed(authority: UserAuthority, *, scope: Scope, read_only: bool = False) -> UserAuthority:
    """Return what is left of an authority inside a scope (None: all of it); never more than it was.

    ``read_only`` leaves no action but to read the audit log. At most two queries.
    """
    if read_only:
        authority = replace(
            authority,
            grants=tuple((held_in, held & {Action.AUDIT}) for held_in, held in authority.grants),
            roles=(),
        )
    if scope is None:
        return authority
    kind, scope_id = scope
    if kind == "department":
        return _inside_department(authority, scope_id)
    project = apps.get_model("scheduler", "Project").objects.filter(pk=scope_id).first()
    return _inside_project(authority, scope_id, project.department_id if project else 0)


def _inside_project(authority: UserAuthority, project_id: int, department_id: int) -> UserAuthority:
    inside: Scope = ("project", project_id)
    covering: set[Scope] = {None, ("department", department_id), inside}
    sees = authority.sees_project(project_id=project_id, department_id=department_id)
    return replace(
        authority,
        visible=Visibility(
            project_ids=frozenset({project_id} if sees else ()),
            scratch=authority.visible.scratch,
            hides_others=not read_settings().show_others_in_use,
        ),
        grants=tuple((inside, held) for scope, held in authority.grants if scope in covering),
        roles=tuple((inside, role) for scope, role in authority.roles if scope in covering),
        narrowed=True,
    )


def _inside_department(authority: UserAuthority, department_id: int) -> UserAuthority:
    inside: Scope = ("department", department_id)
    projects = apps.get_model("scheduler", "Project").objects.filter(department=department_id)
    ids = frozenset(projects.values_list("pk", flat=True))
    kept: dict[Scope, Scope] = {None: inside, inside: inside}
    kept |= {("project", each): ("project", each) for each in ids}
    visible = authority.visible
    sees_all = authority.sees_department(department_id=department_id)
    return replace(
        authority,
        visible=Visibility(
            department_ids=frozenset({department_id} if sees_all else ()),
            project_ids=visible.project_ids & ids,
            scratch=visible.scratch,
            hides_others=not read_settings().show_others_in_use,
        ),
        grants=tuple((kept[scope], held) for scope, held in authority.grants if scope in kept),
        roles=tuple((kept[scope], role) for scope, role in authority.roles if scope in kept),
        narrowed=True,
    )


def _rules(user: User) -> QuerySet[AccessRule]:
    """Return the rules of a user and of the groups that it is in."""
    groups = Membership.objects.filter(user=user).values("group_id")
    return AccessRule.objects.filter(Q(user=user) | Q(group__in=groups))


def scope_of(*, rule: AccessRule) -> Scope:
    """Return the one scope of a rule."""
    if rule.department_id is not None:
        return ("department", rule.department_id)
    if rule.project_id is not None:
        return ("project", rule.project_id)
    return None


def role_of(*, user: User) -> str:
    """Return the widest role of a user, for showing; empty where it has none. At most one query."""
    if user.is_superuser:
        return Role.SYSTEM_ADMIN
    held = set(_rules(user).values_list("role", flat=True))
    return next((role.value for role in Role if role.value in held), "")
