"""Access tokens: made, revoked, and turned from a bearer secret into an authority."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from access.last_admin import PeopleRefused
from access.models import AccessToken, ServiceAccount, User
from access.scopes import Scope, UserAuthority, authority_of, narrowed
from access.tokens_refused import refuse_tokens
from scheduler.operations import audit
from scheduler.operations.authority import Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem
from scheduler.queries.visibility import Visibility

#: Told from gateway keys, and found by scanners that look for secrets in files.
SECRET_PREFIX = "tgat_"
SHOWN_CHARACTERS = 10
MOST_DAYS = 365
#: Of one user at a time.
MOST_TOKENS = 50
#: The time of last use is written at most this often.
USE_NOTED_EVERY = timedelta(minutes=1)


class BadToken(Exception):
    """No secret, or one that is unknown, revoked, expired, or of an account that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTerms:
    """What a token may: at most what its user may, inside one scope where one is given."""

    name: str
    days: int
    read_only: bool = False
    scope: Scope = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeToken:
    """A new token. The secret is nowhere else and never shown again."""

    token: AccessToken
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Who came by a token, as it is now."""

    user: User
    token_id: int
    authority: UserAuthority
    read_only: bool

    @property
    def visible(self) -> Visibility:
        """What the bearer sees."""
        return self.authority.visible

    def refuse_changes(self) -> None:
        """Refuse any request that changes something, where the token is only for reading.

        Raises:
            NotPermitted: ask it before every such request; some changes need no role, only an owner.
        """
        if self.read_only:
            raise NotPermitted(
                "This token may only read. Make one that may also change things.",
                code="token_read_only",
            )


def bearer_of(*, authorization: str, now: datetime, address: str = "", door: str = "api") -> Bearer:
    """Return who comes by an ``Authorization`` header: its authority and what it sees, as of now.

    Rights are read anew each time: a token never has more than its user has at that moment.

    Raises:
        BadToken: with one sentence for all causes, so that it tells nothing of a guessed secret.
    """
    scheme, _, secret = authorization.partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret:
        raise BadToken("Give an access token as: Authorization: Bearer TOKEN")
    token = _find_by_secret(secret, now)
    if token is None or not token.user.is_active:
        raise BadToken("This access token is not valid: it is unknown, revoked or expired.")
    _note_use(token, now, address)
    authority = narrowed(
        authority_of(user=token.user, door=door, address=address, token_id=token.pk),
        scope=_scope_of(token),
        read_only=token.read_only,
    )
    return Bearer(
        user=token.user, token_id=token.pk, authority=authority, read_only=token.read_only
    )


@transaction.atomic
def create_own(*, terms: TokenTerms, authority: UserAuthority, now: datetime) -> MadeToken:
    """Make a token for oneself.

    Raises:
        NotPermitted: by a token; a stolen one must not make others that outlive it.
        NotFound: a scope that is not there for the caller.
        PeopleRefused: terms that can't be.
    """
    refuse_tokens(authority)
    _require_scope(terms.scope, authority)
    user = User.objects.select_for_update().get(pk=authority.user_id)
    return make(user=user, terms=terms, authority=authority, now=now)


@transaction.atomic
def revoke_own(*, token_id: int, authority: UserAuthority, now: datetime) -> AccessToken:
    """End one of one's own tokens for good; the next request that brings it is refused.

    Raises:
        NotFound: it is not there, or someone else's.
        NotPermitted: by a token.
    """
    refuse_tokens(authority)
    token = AccessToken.objects.filter(pk=token_id, user_id=authority.user_id).first()
    if token is None:
        raise NotFound("token")
    return end(token=token, authority=authority, now=now)


def make(
    *,
    user: User,
    terms: TokenTerms,
    authority: Authority,
    now: datetime,
    account: ServiceAccount | None = None,
) -> MadeToken:
    """Make a token for a user. The caller has asked for the right to.

    Raises:
        PeopleRefused: terms that can't be.
    """
    problems = _problems(terms, user, now)
    if problems:
        raise PeopleRefused(problems)
    secret = SECRET_PREFIX + secrets.token_urlsafe(32)
    kind, scope_id = terms.scope or ("", 0)
    token = AccessToken.objects.create(
        user=user,
        name=terms.name.strip(),
        prefix=secret[:SHOWN_CHARACTERS],
        digest=_digest(secret),
        read_only=terms.read_only,
        department_id=scope_id if kind == "department" else None,
        project_id=scope_id if kind == "project" else None,
        created_by=authority.name,
        created_at=now,
        expires_at=now + timedelta(days=terms.days),
    )
    _record(authority, now, "token.create", token, account)
    return MadeToken(token=token, secret=secret)


def end(
    *,
    token: AccessToken,
    authority: Authority,
    now: datetime,
    account: ServiceAccount | None = None,
) -> AccessToken:
    """Revoke a token; one that has ended stays as it is. The caller has asked for the right to."""
    if token.revoked_at is None:
        token.revoked_at = now
        token.save(update_fields=["revoked_at"])
        _record(authority, now, "token.revoke", token, account)
    return token


def _find_by_secret(secret: str, now: datetime) -> AccessToken | None:
    if not secret.startswith(SECRET_PREFIX):
        return None
    live = AccessToken.objects.filter(revoked_at=None, expires_at__gt=now)
    return live.select_related("user").filter(digest=_digest(secret)).first()


def _note_use(token: AccessToken, now: datetime, address: str) -> None:
    long_ago = Q(last_used_at=None) | Q(last_used_at__lt=now - USE_NOTED_EVERY)
    if token.last_used_at is None or token.last_used_at < now - USE_NOTED_EVERY:
        AccessToken.objects.filter(long_ago, pk=token.pk).update(
            last_used_at=now, last_used_from=address or None
        )


def _scope_of(token: AccessToken) -> Scope:
    if token.project_id is not None:
        return ("project", token.project_id)
    if token.department_id is not None:
        return ("department", token.department_id)
    return None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _require_scope(scope: Scope, authority: UserAuthority) -> None:
    if scope is None:
        return
    inside = narrowed(authority, scope=scope).visible
    if not (inside.department_ids or inside.project_ids):
        raise NotFound("scope")


def _problems(terms: TokenTerms, user: User, now: datetime) -> list[Problem]:
    problems: list[Problem] = []
    if not 1 <= len(terms.name.strip()) <= 63:
        problems.append(
            Problem(
                field="name", code="bad_unit_name", message="Give a name of 1 to 63 characters."
            )
        )
    if not 1 <= terms.days <= MOST_DAYS:
        problems.append(
            Problem(
                field="days",
                code="bad_token_days",
                message=f"A token lives for 1 to {MOST_DAYS} days.",
                params={"most": MOST_DAYS},
            )
        )
    live = AccessToken.objects.filter(user=user, revoked_at=None, expires_at__gt=now).count()
    if live >= MOST_TOKENS:
        problems.append(
            Problem(
                field="name",
                code="too_many_tokens",
                message=f"There are {live} tokens already. Revoke one first.",
                params={"n": live},
            )
        )
    return problems


def _record(
    authority: Authority,
    now: datetime,
    action: str,
    token: AccessToken,
    account: ServiceAccount | None,
) -> None:
    audit.record(
        authority=authority,
        now=now,
        action=action,
        # A service account's own scope says whose log it is in.
        target=account or token,
        after={
            "user": token.user.username,
            "token": token.name,
            "prefix": token.prefix,
            "read_only": token.read_only,
            "scope": str(token.project or token.department or ""),
            "expires_at": token.expires_at.isoformat(),
        },
    )
