"""What is answered when a request fails on the server: a page, or the API's one shape."""

from __future__ import annotations

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import get_template
from django.utils.translation import gettext as _

RETRY_AFTER_S = 5


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer in the place of a view that failed: 503 where the database is away, else 500.

    Django calls it while it handles the failure, which is in the log by then.
    """
    is_away = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    status = 503 if is_away else 500
    answer: HttpResponse
    if request.path.startswith("/api/"):
        answer = JsonResponse(_in_words(is_away=is_away), status=status)
    else:
        answer = HttpResponse(get_template(f"{status}.html").render(), status=status)
    if is_away:
        answer["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def _in_words(*, is_away: bool) -> dict[str, object]:
    if is_away:
        message = _(
            "The database can't be used now. What runs on the cluster goes on. Try again; a "
            "submission with the same Idempotency-Key is there once."
        )
        return {"code": "database_away", "message": message, "problems": []}
    message = _("Something failed on the server. If it stays, look at the server's log.")
    return {"code": "failed", "message": message, "problems": []}
