"""Service accounts: users that are programs, owned by a scope, with rules and tokens of their own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.text import slugify

from access import people, tokens
from access.last_admin import PeopleRefused
from access.listing import RuleRow, rule_row, rules_for, sees_everyone
from access.models import AccessRule, AccessToken, ServiceAccount, User
from access.roles import PERMISSIONS, Role
from access.scopes import Scope, UserAuthority
from access.token_list import TokenRow, list_tokens
from access.tokens_refused import refuse_tokens
from scheduler.operations import audit
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Problem

MOST_NAME = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """One account of the reader's scopes. ``scope_name`` empty: the cluster's."""

    id: int
    user_id: int
    username: str
    purpose: str
    scope_kind: str
    scope_name: str
    active: bool
    created_by: str
    created_at: datetime
    #: Whether the reader may make tokens of it: it may itself all that the account may.
    may_make_tokens: bool
    rules: tuple[RuleRow, ...]
    tokens: tuple[TokenRow, ...]


@transaction.atomic
def create_account(
    *, name: str, purpose: str, scope: Scope, authority: UserAuthority, now: datetime
) -> ServiceAccount:
    """Make an account of a scope. It sees nothing until a role is given.

    Raises:
        NotFound: the scope is not there for the caller.
        NotPermitted: who may give no roles there, or comes by a token.
        PeopleRefused: the name can't be, or is taken in that scope.
    """
    refuse_tokens(authority)
    kind, scope_id = scope or ("", 0)
    found = people.find_scope(
        people.Grant(
            role=Role.VIEWER,
            department_id=scope_id if kind == "department" else None,
            project_id=scope_id if kind == "project" else None,
        ),
        authority,
    )
    _require(authority, found)
    account = ServiceAccount(
        department_id=scope_id if kind == "department" else None,
        project_id=scope_id if kind == "project" else None,
        purpose=purpose.strip(),
        created_by=authority.name,
        created_at=now,
    )
    account.user = _make_user(name, account)
    account.save()
    audit.record(
        authority=authority,
        now=now,
        action="service_account.create",
        target=account,
        after={"username": account.user.username, "purpose": account.purpose},
    )
    return account


@transaction.atomic
def end_account(*, account_id: int, authority: UserAuthority, now: datetime) -> ServiceAccount:
    """End an account and all its tokens. Its records stay; it can't be renewed.

    Raises:
        NotFound, NotPermitted: as for making one.
    """
    account = find_account(account_id, authority)
    account.user.is_active = False
    account.user.save(update_fields=["is_active"])
    AccessToken.objects.filter(user=account.user, revoked_at=None).update(revoked_at=now)
    audit.record(authority=authority, now=now, action="service_account.end", target=account)
    return account


@transaction.atomic
def create_token(
    *, account_id: int, terms: tokens.TokenTerms, authority: UserAuthority, now: datetime
) -> tokens.MadeToken:
    """Make a token by which a program acts as the account.

    Raises:
        NotFound, NotPermitted: as for making one; or the account may more than the caller.
        PeopleRefused: terms that can't be, or the account has ended.
    """
    account = find_account(account_id, authority)
    if not _covers(authority, account.user):
        raise NotPermitted(
            f"{account.user.username} may more than you: a token of it would make you more than "
            "you are. Ask an admin of the wider scope.",
            code="account_above_own",
            params={"name": account.user.username},
        )
    if not account.user.is_active:
        raise PeopleRefused(
            [
                Problem(
                    field="name",
                    code="account_ended",
                    message=f"{account.user.username} has ended. Make another account.",
                    params={"name": account.user.username},
                )
            ]
        )
    return tokens.make(
        user=account.user, terms=terms, authority=authority, now=now, account=account
    )


@transaction.atomic
def revoke_token(*, token_id: int, authority: UserAuthority, now: datetime) -> AccessToken:
    """End a token of an account for good.

    Raises:
        NotFound, NotPermitted: as for making one.
    """
    token = AccessToken.objects.select_related("user").filter(pk=token_id).first()
    if token is None or not token.user.service:
        raise NotFound("token")
    account = find_account(token.user.service_account.pk, authority)
    return tokens.end(token=token, authority=authority, now=now, account=account)


def find_account(account_id: int, authority: UserAuthority) -> ServiceAccount:
    """Return an account that the caller governs.

    Raises:
        NotFound: it is not there, or of a scope that is not there for the caller.
        NotPermitted: who may give no roles there, or comes by a token.
    """
    refuse_tokens(authority)
    account = _accounts(authority).filter(pk=account_id).first()
    if account is None:
        raise NotFound("service account")
    _require(authority, owner_of(account))
    return account


def list_accounts(*, authority: UserAuthority, now: datetime) -> tuple[AccountRow, ...]:
    """Return the accounts that the reader governs, with rules and living tokens."""
    accounts = [
        each
        for each in _accounts(authority).order_by("user__username")
        if _governs(authority, owner_of(each))
    ]
    ids = [each.user_id for each in accounts]
    rules, told = _by_user(AccessRule.objects.all(), ids), _by_user(rules_for(authority), ids)
    living = list_tokens(user_ids=[each.user_id for each in accounts], now=now)
    return tuple(
        AccountRow(
            id=each.pk,
            user_id=each.user_id,
            username=each.user.username,
            purpose=each.purpose,
            scope_kind=(owner_of(each) or ("cluster", 0))[0],
            scope_name=str(each.project or each.department or ""),
            active=each.user.is_active,
            created_by=each.created_by,
            created_at=each.created_at,
            may_make_tokens=each.user.is_active
            and _holds_all(authority, rules.get(each.user_id, [])),
            rules=tuple(rule_row(rule, authority) for rule in told.get(each.user_id, [])),
            tokens=living.get(each.user_id, ()),
        )
        for each in accounts
    )


def _by_user(rules: QuerySet[AccessRule], user_ids: list[int]) -> dict[int, list[AccessRule]]:
    """Return those of the rules that name one of the users, by user."""
    found: dict[int, list[AccessRule]] = {}
    named = rules.filter(user__in=user_ids)
    for rule in named.select_related("user", "group", "department", "project").order_by("pk"):
        found.setdefault(rule.user_id or 0, []).append(rule)
    return found


def owner_of(account: ServiceAccount) -> Scope:
    """Return the scope that an account belongs to."""
    if account.project_id is not None:
        return ("project", account.project_id)
    if account.department_id is not None:
        return ("department", account.department_id)
    return None


def _accounts(authority: UserAuthority) -> QuerySet[ServiceAccount]:
    accounts = ServiceAccount.objects.select_related("user", "department", "project")
    if sees_everyone(authority):
        return accounts
    visible = authority.visible
    return accounts.filter(
        Q(department_id__in=visible.department_ids)
        | Q(project_id__in=visible.project_ids)
        | Q(project__department_id__in=visible.department_ids)
    )


def _governs(authority: UserAuthority, scope: Scope) -> bool:
    department_id = people.department_of(scope)
    project_id = scope[1] if scope and scope[0] == "project" else None
    return authority.may(Action.ACCESS, project_id=project_id, department_id=department_id)


def _require(authority: UserAuthority, scope: Scope) -> None:
    if not _governs(authority, scope):
        raise NotPermitted(
            "Your role may not govern service accounts there. Ask an admin of it.",
            code="accounts_are_for_admins",
        )


def _covers(authority: UserAuthority, user: User) -> bool:
    """Test whether the caller may itself all that a user may."""
    rules = AccessRule.objects.filter(user=user) | AccessRule.objects.filter(
        group__memberships__user=user
    )
    return _holds_all(authority, list(rules.select_related("project").distinct()))


def _holds_all(authority: UserAuthority, rules: list[AccessRule]) -> bool:
    for rule in rules:
        project_id = rule.project_id
        department_id = rule.project.department_id if rule.project else rule.department_id
        if not all(
            authority.may(action, project_id=project_id, department_id=department_id)
            for action in PERMISSIONS[Role(rule.role)]
        ):
            return False
        if not _sees(authority, project_id, department_id):
            return False
    return True


def _sees(authority: UserAuthority, project_id: int | None, department_id: int | None) -> bool:
    """Test whether a scope is there for the caller: a role may hold nothing but the sight of it."""
    if department_id is None:
        return authority.visible.cluster
    if project_id is None:
        return authority.sees_department(department_id=department_id)
    return authority.sees_project(project_id=project_id, department_id=department_id)


def _make_user(name: str, account: ServiceAccount) -> User:
    """Make the user: its name ends with what it belongs to, so that names of others don't matter."""
    owner = account.project or account.department
    tail = slugify(owner.slug if owner else "cluster", allow_unicode=True)
    user = User(username=f"{name.strip()}.{tail}", service=True)
    user.set_unusable_password()
    if not 1 <= len(name.strip()) <= MOST_NAME:
        raise _bad_name()
    try:
        user.full_clean(exclude=["username"])
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise _bad_name() from error
    if User.objects.filter(username=user.username).exists():
        raise PeopleRefused(
            [
                Problem(
                    field="name",
                    code="is_there_already",
                    message=f"{user.username} is there already. Choose another name.",
                    params={"name": user.username},
                )
            ]
        )
    user.save()
    return user


def _bad_name() -> PeopleRefused:
    return PeopleRefused(
        [
            Problem(
                field="name",
                code="bad_account_name",
                message="Use 1 to 63 letters, digits and the signs . + - _ for the name.",
            )
        ]
    )
