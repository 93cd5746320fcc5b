"""Sign-ins that are open: noted with where from, listed for their owner, ended."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac

from access.models import Session, User
from access.scopes import UserAuthority
from access.session_store import NOTES
from access.tokens_refused import refuse_tokens
from scheduler.operations import audit

#: A session that is used is noted at most this often.
NOTED_EVERY_US = 300_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One open sign-in. Its key is a secret and not in it."""

    address: str
    agent: str
    began_at: datetime | None
    seen_at: datetime | None
    is_this: bool


def list_sessions(*, user: User, this_key: str) -> tuple[SessionRow, ...]:
    """Return a user's open sign-ins, the one that asks first, then as they were seen last."""
    open_now = Session.objects.filter(user=user, expire_date__gt=timezone.now())
    rows = [
        SessionRow(
            address=row.address or "",
            agent=row.agent,
            began_at=_at(row.began_us),
            seen_at=_at(row.seen_us),
            is_this=row.session_key == this_key,
        )
        for row in open_now.order_by("-seen_us")
    ]
    return tuple(sorted(rows, key=lambda row: not row.is_this))


def end_sessions(*, user: User, except_key: str = "") -> int:
    """End a user's sign-ins, all or all but one; pages and sockets lose them within seconds."""
    rows = Session.objects.filter(user=user).exclude(session_key=except_key)
    return int(rows.delete()[0])


def end_own_other_sessions(*, session_key: str, authority: UserAuthority, now: datetime) -> int:
    """End all of one's sign-ins but the one that asks, and return how many.

    Raises:
        NotPermitted: by a token.
    """
    refuse_tokens(authority)
    user = User.objects.get(pk=authority.user_id)
    with transaction.atomic():
        ended = end_sessions(user=user, except_key=session_key)
        audit.record(
            authority=authority, now=now, action="session.end", target=user, after={"ended": ended}
        )
    return ended


def living_keys(keys: Iterable[str]) -> set[str]:
    """Return those of the keys whose session is still open."""
    now = timezone.now()
    found = Session.objects.filter(session_key__in=list(keys), expire_date__gt=now)
    return set(found.values_list("session_key", flat=True))


def mark_of(key: str) -> str:
    """Return what tells a sign-in from others and opens none."""
    return salted_hmac("access.sessions.mark", key, algorithm="sha256").hexdigest()


def is_open(*, user: User, mark: str) -> bool:
    """Test whether a user's sign-in of that mark is still open."""
    rows = Session.objects.filter(user=user, expire_date__gt=timezone.now())
    keys = rows.values_list("session_key", flat=True)
    return any(constant_time_compare(mark_of(key), mark) for key in keys)


def note_use(*, request: HttpRequest, session: SessionBase) -> None:
    """Note that a signed-in session is used, from where and with what; every few minutes at most."""
    if SESSION_KEY not in session:
        return
    notes = session.get(NOTES, {})
    now_us = int(time.time() * 1_000_000)
    if now_us - notes.get("seen_us", 0) < NOTED_EVERY_US:
        return
    session[NOTES] = {
        "began_us": notes.get("began_us", now_us),
        "seen_us": now_us,
        "address": request.META.get("REMOTE_ADDR", ""),
        "agent": request.META.get("HTTP_USER_AGENT", "")[:200],
    }


def _note_sign_in(sender: object, request: HttpRequest | None, user: User, **more: object) -> None:
    """Note where a sign-in came from, as it happens."""
    session = getattr(request, "session", None)
    if request is not None and session is not None:
        session.pop(NOTES, None)
        note_use(request=request, session=session)


def listen() -> None:
    """Note each sign-in from now on. Called once, when the application is ready."""
    user_logged_in.connect(_note_sign_in, dispatch_uid="access.sessions")


def _at(us: int) -> datetime | None:
    return datetime.fromtimestamp(us / 1_000_000, tz=UTC) if us else None
