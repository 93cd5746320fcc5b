"""Who asks: the signed-in user, its visibility and its authority."""

from __future__ import annotations

from django.http import HttpRequest

from access.models import User
from access.scopes import UserAuthority, authority_of, visibility_of
from scheduler.queries.visibility import Visibility


def user_of(request: HttpRequest) -> User:
    """Return the signed-in user; pages are behind ``login_required``."""
    user = request.user
    assert isinstance(user, User)
    return user


def visible_to(request: HttpRequest) -> Visibility:
    """Return what the caller may see."""
    return visibility_of(user=user_of(request))


def authority(request: HttpRequest) -> UserAuthority:
    """Return what the caller may do at this door."""
    return authority_of(
        user=user_of(request), door="page", address=request.META.get("REMOTE_ADDR", "")
    )
