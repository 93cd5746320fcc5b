"""Who calls the REST API: an access token to its authority and what it sees, within its rate."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from access import counting
from access.tokens import BadToken, Bearer, bearer_of

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MINUTE_S = 60


class TooMany(Exception):
    """The token has made its requests of this minute."""

    def __init__(self, *, retry_after_s: int) -> None:
        super().__init__(f"Too many requests by this token. Try again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s


class TokenAuth(HttpBearer):
    """``Authorization: Bearer TOKEN``; what came by it is ``request.auth``, a ``Bearer``.

    None, and so 401, for a bad token. Raises ``NotPermitted`` where a token for reading asks for a
    change, and ``TooMany`` above ``TIDEGATE_API_PER_MINUTE``: the API answers 403 and 429.
    """

    def authenticate(self, request: HttpRequest, token: str) -> Bearer | None:
        """Return who comes by a token."""
        try:
            bearer = bearer_of(
                authorization=f"Bearer {token}",
                now=timezone.now(),
                address=request.META.get("REMOTE_ADDR", ""),
            )
        except BadToken:
            return None
        request.bearer = bearer  # type: ignore[attr-defined]
        used, left_s = counting.count(key=f"api:{bearer.token_id}", window_s=MINUTE_S)
        if used > settings.API_PER_MINUTE:
            raise TooMany(retry_after_s=left_s)
        if request.method not in SAFE_METHODS:
            bearer.refuse_changes()
        return bearer
