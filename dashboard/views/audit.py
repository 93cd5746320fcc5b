"""The audit log: who changed what, filtered, page by page, and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from dashboard.audit_scopes import audit_scopes
from dashboard.downloads import no_such, streamed
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.instants import FIRST_YEAR, LAST_YEAR
from scheduler.queries import audit_log
from scheduler.queries.csv_text import guard
from scheduler.queries.visibility import Visibility


@login_required
@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    """Answer one page of the log; every filter stands in the address."""
    wanted = _wanted(request)
    query = request.GET.copy()
    query.pop("before", None)
    return render(
        request,
        "dashboard/audit.html",
        {
            "page": audit_log.read_page(scopes=_scopes(request), wanted=wanted),
            "wanted": wanted,
            "unknown": _unknown(request),
            "given": {name: request.GET.get(name, "") for name in ("from", "to")},
            "query": query.urlencode(),
            "filtered": any(query.values()),
        },
    )


@login_required
@require_GET
def export(request: HttpRequest) -> HttpResponseBase:
    """Answer all entries that match as CSV, row by row; none where a filter means nothing."""
    scopes = _scopes(request)
    unknown = _unknown(request)
    if unknown:
        return no_such(unknown)
    rows = audit_log.iterate(scopes=scopes, wanted=_wanted(request))
    return streamed((line.encode() for line in _lines(rows)), "audit.csv")


def _scopes(request: HttpRequest) -> Visibility:
    """Return the scopes whose log the caller may read; for whom there is none, there is no page."""
    scopes = audit_scopes(signed_in.authority(request))
    if scopes is None:
        raise Http404
    return scopes


def _wanted(request: HttpRequest) -> audit_log.AuditFilter:
    def text(name: str) -> str:
        return request.GET.get(name, "").strip()[:100]

    to_at = _day(text("to"))
    return audit_log.AuditFilter(
        actor=text("who"),
        action=text("action"),
        result=text("result"),
        text=text("q"),
        from_at=_day(text("from")),
        to_at=to_at + timedelta(days=1) if to_at else None,
        before_id=optional_int(request.GET.get("before")),
    )


def _unknown(request: HttpRequest) -> list[str]:
    """Return what the address asks for that there is none of, as it stands there."""
    given = {name: request.GET.get(name, "").strip()[:100] for name in ("from", "to", "result")}
    found = [name for name in ("from", "to") if given[name] and _day(given[name]) is None]
    if given["result"] not in ("", "done", "refused"):
        found.append("result")
    return [f"{name}={given[name]}" for name in found]


def _day(text: str) -> datetime | None:
    """Return the begin of a day, or None for what is none or beyond what clocks can tell."""
    try:
        day = parse_date(text)
    except ValueError:
        return None
    if day is None or not FIRST_YEAR <= day.year <= LAST_YEAR:
        return None
    return timezone.make_aware(datetime(day.year, day.month, day.day))  # noqa: DTZ001


class _Echo:
    """A file that gives back what is written to it."""

    def write(self, line: str) -> str:
        """Return the line."""
        return line


def _lines(rows: Iterator[audit_log.AuditRow]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield "\ufeff" + writer.writerow(
        [
            _("Time"), _("Who"), _("Door"), _("Address"), _("Action"), _("Kind"), _("Id"),
            _("Object"), _("Result"), _("Reason"), _("Changes"),
        ]
    )  # fmt: skip
    for row in rows:
        changes = "; ".join(f"{name}: {before} -> {after}" for name, before, after in row.changes)
        cells = [
            row.at.isoformat(), row.actor, row.door, row.address, row.action, row.object_kind,
            row.object_id or "", row.object_name, row.result, row.reason, changes,
        ]  # fmt: skip
        yield writer.writerow([guard(str(cell)) for cell in cells])
