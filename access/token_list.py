"""Access tokens for their owner and for those who govern a service account: never the secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from access.models import AccessToken
from access.scopes import UserAuthority


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """One token that can still be used. ``scope_name`` empty: all scopes of its user."""

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


def list_tokens(*, user_ids: Sequence[int], now: datetime) -> dict[int, tuple[TokenRow, ...]]:
    """Return the living tokens of users, the newest first. One query."""
    rows: dict[int, list[TokenRow]] = {}
    for token in _living(now).filter(user__in=user_ids):
        rows.setdefault(token.user_id, []).append(_row(token))
    return {user_id: tuple(each) for user_id, each in rows.items()}


def list_own(*, authority: UserAuthority, now: datetime) -> tuple[TokenRow, ...]:
    """Return the caller's living tokens; by one of a narrower scope, itself and those inside that scope."""
    found = _living(now).filter(user=authority.user_id)
    if authority.narrowed:
        visible = authority.visible
        found = found.filter(
            Q(pk=authority.token_id)
            | Q(department__in=visible.department_ids)
            | Q(project__in=visible.project_ids)
            | Q(project__department__in=visible.department_ids)
        )
    return tuple(_row(token) for token in found)


def _living(now: datetime) -> QuerySet[AccessToken]:
    living = AccessToken.objects.filter(revoked_at=None, expires_at__gt=now)
    return living.select_related("department", "project").order_by("-id")


def _row(token: AccessToken) -> TokenRow:
    return TokenRow(
        id=token.pk,
        name=token.name,
        prefix=token.prefix,
        read_only=token.read_only,
        scope_kind="project" if token.project else "department" if token.department else "",
        scope_name=str(token.project or token.department or ""),
        created_at=token.created_at,
        expires_at=token.expires_at,
        last_used_at=token.last_used_at,
        last_used_from=token.last_used_from or "",
    )
