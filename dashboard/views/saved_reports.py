"""Saved and scheduled reports: the list, one as it was made, its CSV, saving and dropping."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from dashboard.problems import refusal
from dashboard.views import signed_in
from reports import csv_export, report_words, saved
from reports.asked import Asked, parse_asked
from reports.refused import ReportRefused
from scheduler.core.vocabulary import Readers
from scheduler.operations import saved_reports as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound
from scheduler.queries import saved_reports

#: The columns of a saved report that its page shows.
SHOWN = (
    "name",
    "department",
    "bucket_start",
    "gpu_allocation_hours",
    "gpu_deserved_quota_hours",
    "gpu_over_quota_hours",
    "gpu_unused_guarantee_hours",
    "gpu_idle_hours",
    "gpu_unknown_hours",
    "cost",
    "idle_cost",
)
TEXT = frozenset({"name", "department", "bucket_start"})


@login_required
@require_GET
def saved_list(request: HttpRequest) -> HttpResponse:
    """Answer the reader's saved reports and schedules."""
    return _list(request)


@login_required
@require_GET
def saved_report(request: HttpRequest, report_id: int) -> HttpResponse:
    """Answer a report as it was when it was made."""
    found = _find(request, report_id)
    content = found.content
    places = [content["header"].index(name) for name in SHOWN]
    return render(
        request,
        "reports/saved_report.html",
        {
            "found": found,
            "begin": saved.told_time(content, content["period_start"]),
            "end": saved.told_time(content, content["period_end"]),
            "is_mine": found.owner == signed_in.user_of(request).get_username(),
            "readers_name": report_words.readers_name(found.readers),
            "readers": readers_choices(request),
            "heads": [
                (report_words.column_name(name), name not in TEXT, at == 0)
                for at, name in enumerate(SHOWN)
            ],
            "rows": [
                [
                    (
                        saved.told_time(content, line[at]) if name == "bucket_start" else line[at],
                        name not in TEXT,
                    )
                    for at, name in zip(places, SHOWN, strict=True)
                ]
                for line in (*content["lines"], content["total"])
            ],
        },
    )


@login_required
@require_GET
def saved_csv(request: HttpRequest, report_id: int) -> HttpResponse:
    """Answer a saved report's CSV."""
    found = _find(request, report_id)
    response = HttpResponse(
        b"".join(saved.saved_csv(saved=found)), content_type="text/csv; charset=utf-8"
    )
    response["Content-Disposition"] = csv_export.disposition(name=found.content["file"])
    return response


@login_required
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save what is shown, or have it made again and again."""
    now = timezone.now()
    name, every = request.POST.get("name", ""), request.POST.get("every", "")
    readers = _readers(request)
    authority = signed_in.authority(request)
    try:
        asked = _asked(request)
        if every:
            saved.schedule(
                asked=asked,
                name=name,
                authority=authority,
                every=every,
                language=get_language() or settings.LANGUAGE_CODE,
                mail_to=_mail_to(request),
                readers=readers,
                now=now,
            )
            return redirect("saved_reports")
        report_id = saved.save(
            visible=signed_in.visible_to(request),
            asked=asked,
            name=name,
            authority=authority,
            readers=readers,
            now=now,
        )
    except ReportRefused as refused:
        return _list(request, refused=str(refused))
    except NotPermitted as error:
        return _list(request, refused=refusal(error), status=403)
    return redirect("saved_report", report_id)


@login_required
@require_POST
def share(request: HttpRequest, report_id: int) -> HttpResponse:
    """Say who reads one of one's saved reports."""
    try:
        operations.share_report(
            report_id=report_id,
            readers=_readers(request),
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as error:
        return _list(request, refused=refusal(error), status=403)
    return redirect("saved_report", report_id)


def readers_choices(request: HttpRequest) -> list[tuple[str, str]]:
    """Return who may read a report of the caller, as (value, words)."""
    may_publish = signed_in.authority(request).may(Action.NODES)
    return [
        (one.value, report_words.readers_name(one))
        for one in Readers
        if may_publish or one is not Readers.ALL
    ]


@login_required
@require_POST
def drop(request: HttpRequest) -> HttpResponse:
    """Drop a saved report or stop a schedule."""
    authority, now = signed_in.authority(request), timezone.now()
    try:
        if request.POST.get("report", "").isdigit():
            operations.delete_report(
                report_id=int(request.POST["report"]), authority=authority, now=now
            )
        elif request.POST.get("schedule", "").isdigit():
            operations.delete_schedule(
                schedule_id=int(request.POST["schedule"]), authority=authority, now=now
            )
    except NotFound as error:
        raise Http404 from error
    return redirect("saved_reports")


def _list(request: HttpRequest, refused: str = "", status: int = 400) -> HttpResponse:
    owner = signed_in.user_of(request).get_username()
    shared = saved_reports.list_shared(reader=owner, visible=signed_in.visible_to(request))
    return render(
        request,
        "reports/saved.html",
        {
            "refused": refused,
            "saved": [
                (one, report_words.readers_name(one.readers))
                for one in saved_reports.list_saved(owner=owner)
            ],
            "shared": shared,
            "schedules": [
                (one, report_words.every_name(one.every))
                for one in saved_reports.list_schedules(owner=owner)
            ],
        },
        status=status if refused else 200,
    )


def _find(request: HttpRequest, report_id: int) -> saved_reports.Saved:
    found = saved_reports.read_saved(
        report_id=report_id,
        reader=signed_in.user_of(request).get_username(),
        visible=signed_in.visible_to(request),
    )
    if found is None:
        raise Http404
    return found


def _readers(request: HttpRequest) -> Readers:
    asked = request.POST.get("readers", "") or Readers.ME.value
    if asked not in tuple(Readers):
        raise Http404
    return Readers(asked)


def _asked(request: HttpRequest) -> Asked:
    given = {name: request.GET.getlist(name) for name in request.GET}
    return parse_asked(words=given, zone=timezone.get_current_timezone_name(), now=timezone.now())


def _mail_to(request: HttpRequest) -> str:
    text = request.POST.get("mail_to", "").strip()
    if not text:
        return ""
    if not settings.EMAIL_HOST:
        raise ReportRefused(_("This installation sends no mail: no mail server is set."))
    try:
        validate_email(text)
    except ValidationError as error:
        raise ReportRefused(_("{text} is no mail address.").format(text=text)) from error
    return text
