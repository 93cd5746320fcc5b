"""Refusals of every kind in one shape: a stable code, a sentence, and the fields that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError

from dashboard import problems
from reports.refused import ReportRefused
from scheduler.engines.base import EngineError
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import NotFound, Problem, QuotaConflict, Refused, StateRefused


class ProblemOut(Schema):
    """One thing that is wrong. ``unit``: which one, where several were changed at once."""

    field: str
    code: str
    message: str
    params: dict[str, object] = {}
    unit: str = ""


class ErrorOut(Schema):
    """What every answer from 400 on has. ``code`` stays; ``message`` follows Accept-Language."""

    code: str
    message: str
    problems: list[ProblemOut] = []


class Unmet(Exception):
    """A condition of the request's headers does not hold, such as that of If-Match."""

    def __init__(self, code: str, message: str, *, status: int) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


#: What an endpoint may answer beside its own success.
READS = {400: ErrorOut, 401: ErrorOut, 404: ErrorOut, 422: ErrorOut, 429: ErrorOut}
WRITES = {**READS, 403: ErrorOut, 409: ErrorOut, 412: ErrorOut, 428: ErrorOut}


def install(api: NinjaAPI) -> None:
    """Make ``api`` answer each refusal of the product in the one shape."""
    for kind, say in _SAID.items():
        api.add_exception_handler(kind, _handler(api, say))


Answer = tuple[int, ErrorOut]


def _handler(
    api: NinjaAPI, say: Callable[[Any], Answer]
) -> Callable[[HttpRequest, Any], HttpResponse]:
    def answer(request: HttpRequest, error: Any) -> HttpResponse:
        status, body = say(error)
        return api.create_response(request, body.model_dump(), status=status)

    return answer


def _not_found(error: Exception) -> Answer:
    return 404, ErrorOut(code="not_found", message=_("There is no such thing."))


def _not_permitted(error: NotPermitted) -> Answer:
    return 403, ErrorOut(code=error.code or "not_permitted", message=problems.refusal(error))


def _refused(error: Refused) -> Answer:
    found = [_out(each) for each in error.problems]
    return 409 if isinstance(error, QuotaConflict | StateRefused) else 422, ErrorOut(
        code=found[0].code if len(found) == 1 else "refused",
        message=" ".join(each.message for each in found),
        problems=found,
    )


def _report_refused(error: ReportRefused) -> Answer:
    return 422, ErrorOut(code="report_refused", message=str(error))


def _unmet(error: Unmet) -> Answer:
    return error.status, ErrorOut(code=error.code, message=str(error))


def _invalid(error: ValidationError) -> Answer:
    found = [
        ProblemOut(field=_field(each["loc"]), code=str(each["type"]), message=str(each["msg"]))
        for each in error.errors
    ]
    message = "; ".join(f"{each.field}: {each.message}" for each in found)
    return 422, ErrorOut(code="invalid", message=message, problems=found)


def _unknown(error: AuthenticationError) -> Answer:
    message = _(
        "Sign in, or send a personal access token: “Authorization: Bearer TOKEN”. Tokens are made on "
        "your account's page."
    )
    return 401, ErrorOut(code="not_signed_in", message=message)


def _unreadable(error: EngineError) -> Answer:
    return 503, ErrorOut(code="engine_unreachable", message=str(error))


def _http(error: HttpError) -> Answer:
    code = {400: "bad_request", 403: "not_permitted", 429: "too_many"}.get(error.status_code)
    return error.status_code, ErrorOut(code=code or "error", message=str(error))


_SAID: dict[type[Exception], Callable[[Any], Answer]] = {
    NotFound: _not_found,
    Http404: _not_found,
    NotPermitted: _not_permitted,
    Refused: _refused,
    ReportRefused: _report_refused,
    Unmet: _unmet,
    ValidationError: _invalid,
    AuthenticationError: _unknown,
    EngineError: _unreadable,
    HttpError: _http,
}


def _out(problem: Problem) -> ProblemOut:
    return ProblemOut(
        field=problem.field,
        code=problem.code,
        message=problems.in_words(problem),
        params=problem.params,
        unit=problem.unit,
    )


def _field(loc: tuple[object, ...]) -> str:
    """Return the place of a mistake without the part of the request that it stands in."""
    parts = [str(each) for each in loc]
    if parts and parts[0] in ("body", "query", "path", "header", "form"):
        parts = parts[1:]
    if len(parts) > 1 and parts[0] in ("payload", "given", "file", "body"):
        parts = parts[1:]
    return ".".join(parts) or "body"
