"""Puts on record what people tried and their role does not allow, at every HTTP door alike."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

from access.models import User
from access.scopes import UserAuthority, authority_of
from dashboard.methods import changes_something
from scheduler.operations import audit
from scheduler.operations.authority import hearing_refusals


class RefusalsMiddleware:
    """Hears refusals while a request that changes something is answered.

    An operation that refuses is undone with all it wrote, so the line is written here, after it. No
    operation and no view has to think of it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not changes_something(request):
            return self.get_response(request)
        with hearing_refusals() as heard:
            answer = self.get_response(request)
        if heard:
            caller = _caller(request)
            now = timezone.now()
            for error in heard if caller else ():
                assert caller is not None
                audit.record_refusal(
                    authority=caller, now=now, action=_action(request), error=error
                )
        return answer


def _caller(request: HttpRequest) -> UserAuthority | None:
    """Return who asked: by an access token, or by being signed in."""
    authority = getattr(getattr(request, "auth", None), "authority", None)
    if isinstance(authority, UserAuthority):
        return authority
    if not isinstance(request.user, User):
        return None
    match = request.resolver_match
    door = "admin" if match is not None and "admin" in match.namespaces else "page"
    return authority_of(user=request.user, door=door, address=request.META.get("REMOTE_ADDR", ""))


def _action(request: HttpRequest) -> str:
    """Return what was tried, by the name of the address."""
    name = request.resolver_match.view_name if request.resolver_match else request.method
    return (name or "")[:60]
