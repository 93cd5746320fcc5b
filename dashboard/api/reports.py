"""Consumption: the report as JSON and CSV, and the intervals behind it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.params import functions as param

from dashboard.api.callers import who
from dashboard.api.errors import READS
from dashboard.api.report_query import ReportQuery, file_answer
from dashboard.downloads import streamed
from reports import csv_export, intervals, promise
from reports.consumption import make_report
from reports.json_export import report_json
from reports.parquet_export import report_parquet

router = Router(tags=["Consumption"])


class PromiseOut(Schema):
    """How the guarantee of one project was kept, as decimal text; empty: nothing to tell."""

    project_id: str
    project: str
    department: str
    entitled_requests_served: str
    wait_p50_seconds: str
    wait_p95_seconds: str
    wait_worst_seconds: str
    entitled_requests_waiting: str
    below_guarantee_while_asking_hours: str
    interruptions_suffered: str
    interruptions_caused: str
    work_lost_gpu_hours: str
    gpu_waiting_hours: str


PARQUET = "application/vnd.apache.parquet"


@router.get(
    "/consumption", response={200: dict[str, object], **READS}, summary="The report as JSON"
)
def consumption(request: HttpRequest, query: Query[ReportQuery]) -> dict[str, object]:
    """The figures of the page, as decimal text, with the exact integrals beside them."""
    now = timezone.now()
    report = make_report(visible=who(request).visible, request=query.asked(now).request, now=now)
    return report_json(report=report)


@router.get(
    "/consumption.csv",
    response={200: None, **READS},
    summary="The report as CSV",
    openapi_extra=file_answer("One line a unit and step."),
)
def consumption_csv(request: HttpRequest, query: Query[ReportQuery]) -> HttpResponseBase:
    """The figures of the page."""
    now = timezone.now()
    report = make_report(visible=who(request).visible, request=query.asked(now).request, now=now)
    name = csv_export.file_name(request=report.request, ending="csv")
    return streamed(csv_export.report_csv(report=report), name)


@router.get(
    "/promise", response={200: list[PromiseOut], **READS}, summary="How guarantees were kept"
)
def kept_promise(request: HttpRequest, query: Query[ReportQuery]) -> list[PromiseOut]:
    """Waits, interruptions, lost work and hours waited for, a line a project, for at most 100 days."""
    now = timezone.now()
    asked = query.asked(now).request
    lines = promise.make_lines(visible=who(request).visible, request=asked, now=now)
    return [PromiseOut(**promise.told(line)) for line in lines]


@router.get(
    "/intervals.csv",
    response={200: None, **READS},
    summary="The intervals as CSV",
    openapi_extra=file_answer("One line an interval, in constant memory."),
)
def intervals_csv(
    request: HttpRequest,
    query: Query[ReportQuery],
    of: intervals.Behind = param.Query(
        intervals.Behind.HELD,
        description="intervals: of holding; activity: as measured; guarantee: as it was.",
    ),
) -> HttpResponseBase:
    """What the figures sum."""
    now = timezone.now()
    asked = query.asked(now).request
    name = csv_export.file_name(request=asked, what=of)
    parts = intervals.export(visible=who(request).visible, request=asked, now=now, behind=of)
    return streamed(parts, name)


@router.get(
    "/consumption.parquet",
    response={200: None, **READS},
    summary="The report as Parquet",
    openapi_extra=file_answer("One row a unit and step.", PARQUET),
)
def consumption_parquet(request: HttpRequest, query: Query[ReportQuery]) -> HttpResponseBase:
    """The figures of the page."""
    now = timezone.now()
    report = make_report(visible=who(request).visible, request=query.asked(now).request, now=now)
    answer = HttpResponse(report_parquet(report=report), content_type=PARQUET)
    name = csv_export.file_name(request=report.request, ending="parquet")
    answer["Content-Disposition"] = csv_export.disposition(name=name)
    return answer
