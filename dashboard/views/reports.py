"""Consumption: the page, its downloads, and the intervals behind a figure."""

from __future__ import annotations

import zoneinfo
from datetime import datetime
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard import words
from dashboard.downloads import streamed
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from dashboard.views.saved_reports import readers_choices
from reports import csv_export, intervals, page, promise, report_words, simulated_day
from reports import savings as savings_account
from reports.asked import Asked, parse_asked
from reports.consumption import Report, describe_filters, make_report
from reports.intervals import Behind
from reports.json_export import report_json
from reports.parquet_export import report_parquet
from reports.refused import ReportRefused
from scheduler.core.vocabulary import Kind
from scheduler.queries import usage_names
from scheduler.queries.visibility import Visibility

#: Zones offered first; any other name may be typed.
ZONES = ("UTC", "Asia/Taipei", "Asia/Tokyo", "Asia/Kolkata", "Europe/Berlin", "America/New_York")
INTERVALS_A_PAGE = 200


@login_required
@require_GET
def consumption(request: HttpRequest) -> HttpResponse:
    """Answer the page; what can't be answered is said on it."""
    visible = signed_in.visible_to(request)
    context: dict[str, object] = {
        "choices": report_words.choices(),
        "kinds": [(kind.value, words.kind_name(kind)) for kind in Kind],
        "zones": [zone for zone in ZONES if zone in zoneinfo.available_timezones()],
        "mails": bool(settings.EMAIL_HOST),
        "readers": readers_choices(request),
        "given": {name: request.GET.get(name, "") for name in ("from", "to", "zone")},
    }
    try:
        asked = _asked(request)
        made = page.make_page(visible=visible, asked=asked, now=timezone.now())
        context |= {"page": made, "asked": asked, "names": made.names}
    except ReportRefused as refused:
        context["refused"] = str(refused)
        context["names"] = usage_names.read_names(visible=visible)
        return render(request, "reports/consumption.html", context, status=400)
    return render(request, "reports/consumption.html", context)


@login_required
@require_GET
def download(request: HttpRequest, ending: str) -> HttpResponseBase:
    """Answer the report as a file with the figures of the page."""
    visible = signed_in.visible_to(request)
    now = timezone.now()
    try:
        asked = _asked(request)
        what, _, kind = ending.partition(".")
        if kind == "csv" and what in tuple(Behind):
            name = csv_export.file_name(request=asked.request, what=what)
            parts = intervals.export(
                visible=visible, request=asked.request, now=now, behind=Behind(what)
            )
            return streamed(parts, name)
        if ending == "promise.csv":
            return _promise_file(visible, asked, now)
        report = make_report(visible=visible, request=asked.request, now=now)
        return _file(report, ending)
    except ReportRefused as refused:
        return HttpResponse(str(refused), status=400, content_type="text/plain; charset=utf-8")


@login_required
@require_GET
def interval_list(request: HttpRequest) -> HttpResponse:
    """Answer the intervals that a figure sums."""
    visible = signed_in.visible_to(request)
    after = optional_int(request.GET.get("after")) or 0
    named = request.GET.get("of", "")
    behind = Behind(named) if named in tuple(Behind) else Behind.HELD
    try:
        asked = _asked(request)
        found = intervals.list_page(
            visible=visible,
            request=asked.request,
            now=timezone.now(),
            behind=behind,
            after=after,
            limit=INTERVALS_A_PAGE,
        )
    except ReportRefused as refused:
        return render(request, "reports/intervals.html", {"refused": str(refused)}, status=400)
    more = len(found.rows) == INTERVALS_A_PAGE
    return render(
        request,
        "reports/intervals.html",
        {
            "asked": asked,
            "found": found,
            "behind": behind.value,
            "tabs": [
                (one.value, text, asked.query(of=one.value))
                for one, text in report_words.behind_names().items()
            ],
            "next": asked.query(of=behind, after=str(found.rows[-1].interval.id)) if more else "",
        },
    )


@login_required
@require_GET
def kept_promise(request: HttpRequest) -> HttpResponse:
    """Answer how well the guarantees were kept in a period."""
    visible = signed_in.visible_to(request)
    try:
        asked = _asked(request)
        lines = promise.make_lines(visible=visible, request=asked.request, now=timezone.now())
    except ReportRefused as refused:
        return render(request, "reports/promise.html", {"refused": str(refused)}, status=400)
    names = usage_names.read_names(visible=visible)
    return render(
        request,
        "reports/promise.html",
        {
            "asked": asked,
            "filters": describe_filters(wanted=asked.request.wanted, names=names),
            "lines": [(line, promise.shown(line.promise)) for line in lines],
            "total": promise.shown(promise.together([line.promise for line in lines])),
            "periods": [
                (name, asked.query(period=code, **{"from": "", "to": ""}), code == asked.preset)
                for code, name in report_words.choices()["period"]
                if code != "custom"
            ],
        },
    )


def _promise_file(visible: Visibility, asked: Asked, now: datetime) -> HttpResponseBase:
    lines = promise.make_lines(visible=visible, request=asked.request, now=now)
    names = usage_names.read_names(visible=visible)
    filters = describe_filters(wanted=asked.request.wanted, names=names)
    parts = promise.promise_csv(request=asked.request, lines=lines, filters=filters)
    return streamed(parts, csv_export.file_name(request=asked.request, what="promise"))


@login_required
@require_GET
def savings(request: HttpRequest) -> HttpResponse:
    """Answer the account of fixed partitions, with the reader's figures or the article's."""
    context: dict[str, object] = {"currency": usage_names.read_cluster_facts().currency}
    given = {name: request.GET.getlist(name) for name in request.GET}
    try:
        assumptions = savings_account.parse_assumptions(words=given)
    except ReportRefused as refused:
        fields = report_words.assumption_fields(savings_account.Assumptions())
        context |= {"refused": str(refused), "fields": fields}
        return render(request, "reports/savings.html", context, status=400)
    found = savings_account.account(of=assumptions)
    ledger = savings_account.read_ledger(
        visible=signed_in.visible_to(request),
        zone=timezone.get_current_timezone_name(),
        now=timezone.now(),
    )
    context |= {
        "fields": report_words.assumption_fields(assumptions),
        "found": found,
        "splits": savings_account.splits(of=assumptions),
        "ledger": ledger,
        "ledger_wastes": ledger.wasted_a_month(
            total_a_month=found.total / (12 * assumptions.years)
        ),
        "ledger_query": urlencode(ledger.words(of=assumptions)),
    }
    return render(request, "reports/savings.html", context)


@login_required
@require_GET
def savings_day(request: HttpRequest) -> HttpResponse:
    """Answer the simulated day, as a part of the savings page."""
    found = simulated_day.compare()
    return render(request, "reports/partials/_simulated_day.html", {"found": found})


def _asked(request: HttpRequest) -> Asked:
    given = {name: request.GET.getlist(name) for name in request.GET}
    return parse_asked(words=given, zone=timezone.get_current_timezone_name(), now=timezone.now())


def _file(report: Report, ending: str) -> HttpResponseBase:
    name = csv_export.file_name(request=report.request, ending=ending)
    if ending == "csv":
        return streamed(csv_export.report_csv(report=report), name)
    if ending == "json":
        response: HttpResponse = JsonResponse(
            report_json(report=report), json_dumps_params={"ensure_ascii": False}
        )
    elif ending == "parquet":
        response = HttpResponse(
            report_parquet(report=report), content_type="application/vnd.apache.parquet"
        )
    else:
        raise Http404
    response["Content-Disposition"] = csv_export.disposition(name=name)
    return response
