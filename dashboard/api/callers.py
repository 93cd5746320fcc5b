"""Who calls the API: a signed-in browser with its CSRF token, or a bearer token."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest
from ninja.security import HttpBearer, SessionAuth

from access.models import User
from access.scopes import UserAuthority, authority_of
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One caller: what it may see, and what it may do at this door."""

    user: User
    authority: UserAuthority

    @property
    def visible(self) -> Visibility:
        """Return what the caller may see."""
        return self.authority.visible


class Bearer(HttpBearer):
    """``Authorization: Bearer TOKEN``: a personal access token, or one of a service account."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        """Return the caller behind a token that is in force, else None."""
        return None


class Browser(SessionAuth):
    """The session of a signed-in browser; what changes state needs its CSRF token."""

    def __call__(self, request: HttpRequest) -> Caller | None:
        """Return the caller, else None; a request that brings a token is judged by that alone."""
        if "Authorization" in request.headers or not request.user.is_authenticated:
            return None
        found: Caller | None = super().__call__(request)
        return found

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        """Return the caller behind the session, else None."""
        user = request.user
        return caller(user, request) if isinstance(user, User) and user.is_active else None


def caller(user: User, request: HttpRequest) -> Caller:
    """Return a user as a caller of the API."""
    address = request.META.get("REMOTE_ADDR", "")
    return Caller(user=user, authority=authority_of(user=user, door="api", address=address))


def who(request: HttpRequest) -> Caller:
    """Return who calls; every endpoint is behind one of the two above."""
    found = request.auth  # type: ignore[attr-defined]
    assert isinstance(found, Caller)
    return found
