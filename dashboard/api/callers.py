"""Who calls the API: a signed-in browser with its CSRF token, or a bearer of an access token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from ninja.errors import HttpError
from ninja.security import HttpBearer, SessionAuth

from access import counting
from access.models import User
from access.scopes import UserAuthority, authority_of
from access.tokens import BadToken, bearer_of
from dashboard.methods import changes_something
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One caller: what it may see, and what it may do at this door."""

    authority: UserAuthority
    #: Its authority as it is at a later moment; None: it may no longer call.
    renew: Callable[[], UserAuthority | None]

    @property
    def visible(self) -> Visibility:
        """Return what the caller may see."""
        return self.authority.visible


class Bearer(HttpBearer):
    """``Authorization: Bearer TOKEN``: a personal access token, or one of a service account."""

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        """Return the caller behind a token that is in force, else None.

        Raises:
            NotPermitted: a token for reading, and a request that changes something.
            HttpError: 429 above ``TIDEGATE_API_PER_MINUTE``.
        """
        address = request.META.get("REMOTE_ADDR", "")

        def renew() -> UserAuthority | None:
            try:
                found = bearer_of(
                    authorization=f"Bearer {token}", now=timezone.now(), address=address
                )
            except BadToken:
                return None
            if changes_something(request):
                found.refuse_changes()
            return found.authority

        authority = renew()
        if authority is None:
            return None
        _count(authority.token_id)
        return Caller(authority=authority, renew=renew)


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
        user_id, address = request.user.pk, request.META.get("REMOTE_ADDR", "")

        def renew() -> UserAuthority | None:
            user = User.objects.filter(pk=user_id or 0, is_active=True).first()
            if user is None:
                return None
            return authority_of(user=user, door="api", address=address)

        authority = renew()
        return None if authority is None else Caller(authority=authority, renew=renew)


def _count(token_id: int) -> None:
    """Count a request in the minute that all processes share."""
    used, left_s = counting.count(key=f"api:{token_id}", window_s=60)
    if used > settings.API_PER_MINUTE:
        said = _("This token may make {most} requests a minute. Try again in {wait} s.")
        raise HttpError(429, said.format(most=settings.API_PER_MINUTE, wait=left_s))


def who(request: HttpRequest) -> Caller:
    """Return who calls; every endpoint is behind one of the two above."""
    found = request.auth  # type: ignore[attr-defined]
    assert isinstance(found, Caller)
    return found
