"""The site itself: for system admins; for everyone else it is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from unfold.sites import UnfoldAdminSite

from access.models import User
from access.scopes import UserAuthority, authority_of
from scheduler.operations.authority import Action


def authority(request: HttpRequest) -> UserAuthority:
    """Return what the caller may do at this door."""
    user = request.user
    assert isinstance(user, User)
    return authority_of(user=user, door="admin", address=request.META.get("REMOTE_ADDR", ""))


class Site(UnfoldAdminSite):  # type: ignore[misc]
    """Signs in by the product's own page and shows itself to system admins only."""

    def has_permission(self, request: HttpRequest) -> bool:
        """Test whether the caller may do everything in the cluster."""
        user = request.user
        if not isinstance(user, User) or not user.is_active:
            return False
        caller = authority(request)
        return caller.may(Action.NODES) and caller.may(Action.ACCESS)

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Send those who are not signed in to the product's page; to others there is nothing."""
        if request.user.is_authenticated:
            raise Http404
        return redirect_to_login(request.GET.get("next") or "/admin/")

    def admin_view(
        self,
        view: Callable[..., HttpResponse],
        cacheable: bool = False,  # noqa: FBT001
    ) -> Callable[..., HttpResponse]:
        """Return the view behind the same answer as an address that does not exist."""
        guarded = super().admin_view(view, cacheable)

        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.user.is_authenticated and not self.has_permission(request):
                raise Http404
            return guarded(request, *args, **kwargs)  # type: ignore[no-any-return]

        return answer


site = Site(name="admin")
