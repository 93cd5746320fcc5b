"""An id for each request: in every log line that it causes, and in its answer as ``X-Request-ID``."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from structlog.contextvars import bound_contextvars

#: What a proxy may have named it; anything else is named anew.
_NAMED = re.compile(r"[A-Za-z0-9._-]{8,64}")


class RequestIdsMiddleware:
    """First of all, so that whatever is logged on the way has the id."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        named = request.headers.get("X-Request-ID", "")
        request_id = named if _NAMED.fullmatch(named) else uuid.uuid4().hex
        with bound_contextvars(request_id=request_id):
            answer = self.get_response(request)
        answer["X-Request-ID"] = request_id
        return answer
