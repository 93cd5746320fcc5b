"""Keeps NUL out of what comes in: no database column of text takes it, and nobody types it."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _

NUL = "\0"
#: Doors that name the field themselves.
_OWN_CHECKS = ("/api/", "/admin/")


class TextGuardMiddleware:
    """Takes NUL out of addresses, where it can't be meant, and refuses forms that have it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        asked = request.META.get("QUERY_STRING", "")
        if NUL in asked or "%00" in asked:
            request.META["QUERY_STRING"] = asked.replace(NUL, "").replace("%00", "")
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: object, args: object, kwargs: object
    ) -> HttpResponse | None:
        """Refuse a posted form with NUL in it, after the check for forged requests."""
        if request.method != "POST" or request.path.startswith(_OWN_CHECKS):
            return None
        for name, values in request.POST.lists():
            if NUL in name or any(NUL in str(value) for value in values):
                said = _("{field} has a character that no text can have (NUL). Leave it out.")
                text = said.format(field=name.replace(NUL, ""))
                return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
        return None
