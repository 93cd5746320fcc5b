"""Access tokens of one's own, service accounts and their tokens. A secret is answered once."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from access import service_accounts, tokens
from access.scopes import Scope, UserAuthority
from access.token_list import TokenRow, list_own, list_tokens
from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.people import RuleOut
from dashboard.api.submission import Strict
from scheduler.operations.authority import Action
from scheduler.operations.refused import NotFound

own = Router(tags=["Me"])
router = Router(tags=["Service accounts"])


class TokenOut(Schema):
    """One token in force; ``scope_kind`` empty: all that its user may."""

    id: int
    name: str
    prefix: str
    read_only: bool
    scope_kind: str
    scope_name: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    last_used_from: str


class MadeTokenOut(TokenOut):
    """A new token. The secret is nowhere else."""

    secret: str


class TokenIn(Strict):
    """A token's terms: it may at most what its user may, at any time."""

    name: str = Field(max_length=63)
    days: int = Field(30, ge=1, le=tokens.MOST_DAYS)
    read_only: bool = False

    def terms(self, scope: Scope = None) -> tokens.TokenTerms:
        """Return them as the operations take them."""
        return tokens.TokenTerms(
            name=self.name, days=self.days, read_only=self.read_only, scope=scope
        )


class OwnTokenIn(TokenIn):
    """One's own token, inside one department or one project where one is named."""

    department_id: lists.Id | None = None
    project_id: lists.Id | None = Field(None, description="Named, it is the scope.")


class AccountOut(Schema):
    """One service account; ``scope_kind`` says what it belongs to."""

    id: int
    username: str
    purpose: str
    scope_kind: str
    scope_name: str
    active: bool
    created_by: str
    created_at: datetime
    may_make_tokens: bool
    rules: list[RuleOut]
    tokens: list[TokenOut]

    @staticmethod
    def of(row: service_accounts.AccountRow) -> AccountOut:
        """Return a row as it is answered."""
        names = set(AccountOut.model_fields) - {"rules", "tokens"}
        return AccountOut(
            **{name: getattr(row, name) for name in names},
            rules=[RuleOut.from_orm(rule) for rule in row.rules],
            tokens=[TokenOut.from_orm(token) for token in row.tokens],
        )


class AccountIn(Strict):
    """A new account of a department or a project; neither: of the cluster. It sees nothing yet."""

    name: str = Field(max_length=63)
    purpose: str = Field("", max_length=200)
    department_id: lists.Id | None = None
    project_id: lists.Id | None = Field(None, description="Named, it is the scope.")


@own.get("/tokens", response={200: list[TokenOut], **READS}, summary="My tokens")
def my_tokens(request: HttpRequest) -> list[TokenOut]:
    """Those in force, the newest first; a token of a narrower scope sees itself and those inside it."""
    found = list_own(authority=who(request).authority, now=timezone.now())
    return [TokenOut.from_orm(row) for row in found]


@own.post("/tokens", response={201: MadeTokenOut, **WRITES}, summary="Make a token")
def make_own(
    request: HttpRequest, response: HttpResponse, given: OwnTokenIn
) -> Status[MadeTokenOut]:
    """By who is signed in; a token makes no other."""
    made = tokens.create_own(
        terms=given.terms(_scope(given.department_id, given.project_id)),
        authority=who(request).authority,
        now=timezone.now(),
    )
    return _once(response, made)


@own.delete("/tokens/{token_id}", response={204: None, **WRITES}, summary="Revoke my token")
def revoke_own(request: HttpRequest, token_id: lists.Id) -> Status[None]:
    """The next request that brings it is refused."""
    tokens.revoke_own(token_id=token_id, authority=who(request).authority, now=timezone.now())
    return Status(204, None)


@router.get("", response={200: lists.Page[AccountOut], **READS}, summary="List service accounts")
def list_accounts(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[AccountOut]:
    """By name: those that the caller governs, with their roles and tokens."""
    found = service_accounts.list_accounts(authority=_governing(request), now=timezone.now())
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[AccountOut](
        items=[AccountOut.of(row) for row in rows], next=following, total=len(found)
    )


@router.post("", response={201: AccountOut, **WRITES}, summary="Make a service account")
def create_account(request: HttpRequest, given: AccountIn) -> Status[AccountOut]:
    """Roles are given to it by name, as to a person."""
    made = service_accounts.create_account(
        name=given.name,
        purpose=given.purpose,
        scope=_scope(given.department_id, given.project_id),
        authority=_governing(request),
        now=timezone.now(),
    )
    return Status(201, AccountOut.of(_account(request, made.pk)))


@router.get("/{account_id}", response={200: AccountOut, **READS}, summary="One service account")
def account(request: HttpRequest, account_id: lists.Id) -> AccountOut:
    """With its roles and tokens."""
    return AccountOut.of(_account(request, account_id))


@router.delete("/{account_id}", response={204: None, **WRITES}, summary="End a service account")
def end_account(request: HttpRequest, account_id: lists.Id) -> Status[None]:
    """With all its tokens, for good; its records stay."""
    _account(request, account_id)
    service_accounts.end_account(
        account_id=account_id, authority=_governing(request), now=timezone.now()
    )
    return Status(204, None)


@router.post(
    "/{account_id}/tokens", response={201: MadeTokenOut, **WRITES}, summary="Make a token of it"
)
def create_token(
    request: HttpRequest, response: HttpResponse, account_id: lists.Id, given: TokenIn
) -> Status[MadeTokenOut]:
    """By who may itself all that the account may."""
    _account(request, account_id)
    made = service_accounts.create_token(
        account_id=account_id,
        terms=given.terms(),
        authority=_governing(request),
        now=timezone.now(),
    )
    return _once(response, made)


@router.delete(
    "/{account_id}/tokens/{token_id}",
    response={204: None, **WRITES},
    summary="Revoke a token of it",
)
def revoke_token(request: HttpRequest, account_id: lists.Id, token_id: lists.Id) -> Status[None]:
    """The next request that brings it is refused."""
    if token_id not in {token.id for token in _account(request, account_id).tokens}:
        raise NotFound("token")
    service_accounts.revoke_token(
        token_id=token_id, authority=_governing(request), now=timezone.now()
    )
    return Status(204, None)


def _governing(request: HttpRequest) -> UserAuthority:
    """Return the caller's authority; for who gives no roles there are no accounts."""
    authority = who(request).authority
    if not authority.may_anywhere(Action.ACCESS):
        raise NotFound("service accounts")
    return authority


def _account(request: HttpRequest, account_id: int) -> service_accounts.AccountRow:
    rows = service_accounts.list_accounts(authority=_governing(request), now=timezone.now())
    found = next((row for row in rows if row.id == account_id), None)
    if found is None:
        raise NotFound("service account")
    return found


def _living(user_id: int) -> tuple[TokenRow, ...]:
    return list_tokens(user_ids=[user_id], now=timezone.now()).get(user_id, ())


def _once(response: HttpResponse, made: tokens.MadeToken) -> Status[MadeTokenOut]:
    row = next(row for row in _living(made.token.user_id) if row.id == made.token.pk)
    response["Cache-Control"] = "no-store"
    shown = TokenOut.from_orm(row).model_dump()
    return Status(201, MadeTokenOut(**shown, secret=made.secret))


def _scope(department_id: int | None, project_id: int | None) -> Scope:
    if project_id is not None:
        return ("project", project_id)
    return None if department_id is None else ("department", department_id)
