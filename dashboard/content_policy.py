"""A wider content security policy for the admin alone: its theme evaluates expressions."""

from __future__ import annotations

from collections.abc import Callable

from csp.constants import SELF, UNSAFE_EVAL, UNSAFE_INLINE
from django.http import HttpRequest, HttpResponseBase

ADMIN_PATH = "/admin/"
ADMIN_SOURCES = {
    "script-src": [SELF, UNSAFE_EVAL, UNSAFE_INLINE],
    "style-src": [SELF, UNSAFE_INLINE],
}


class AdminContentPolicyMiddleware:
    """Stands inside django-csp's middleware, which reads ``_csp_replace`` from the response."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.path_info.startswith(ADMIN_PATH):
            response._csp_replace = ADMIN_SOURCES  # type: ignore[attr-defined]
        return response
