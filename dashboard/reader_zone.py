"""Times in the reader's zone: the page leaves the browser's zone in a cookie."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

from dashboard.live_read import zone_named

ZONE_COOKIE = "tidegate_zone"


class ReaderZoneMiddleware:
    """Activates the zone for the time of one request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with timezone.override(zone_named(request.COOKIES.get(ZONE_COOKIE, ""))):
            return self.get_response(request)
