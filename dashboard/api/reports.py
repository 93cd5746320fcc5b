"""Consumption: the report as JSON and CSV, and the intervals behind it."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from ninja import Query, Router, Schema
from ninja.params import functions as param

from dashboard.api.callers import who
from dashboard.api.errors import READS
from dashboard.api.lists import Id
from dashboard.downloads import streamed
from reports import csv_export, intervals
from reports.asked import Asked, Preset, parse_asked
from reports.consumption import Segment, make_report
from reports.json_export import report_json
from reports.periods import Bucket
from scheduler.core.vocabulary import Kind

router = Router(tags=["Consumption"])


class ReportQuery(Schema):
    """What the report covers: a named period, or ``from`` and ``to``; lists narrow it down."""

    period: Preset | None = None
    from_: str = param.Query("", alias="from", max_length=40, description="A date or an instant.")
    to: str = param.Query("", max_length=40)
    zone: str = param.Query("", max_length=64, description="Such as Asia/Taipei. Empty: UTC.")
    by: Segment = Segment.PROJECT
    step: Bucket = Bucket.WHOLE
    department: list[Id] = param.Query([])
    project: list[Id] = param.Query([])
    pool: list[Id] = param.Query([])
    kind: list[Kind] = param.Query([])
    workload: list[Id] = param.Query([])
    user: list[str] = param.Query([])

    def asked(self, now: datetime) -> Asked:
        """Return it as the report takes it."""
        words: dict[str, list[str]] = {
            "by": [self.by.value],
            "step": [self.step.value],
            "department": [str(each) for each in self.department],
            "project": [str(each) for each in self.project],
            "pool": [str(each) for each in self.pool],
            "kind": [each.value for each in self.kind],
            "workload": [str(each) for each in self.workload],
            "user": list(self.user),
        }
        if self.period is not None:
            words["period"] = [self.period.value]
        for name, text in (("from", self.from_), ("to", self.to)):
            if text:
                words[name] = [text]
        return parse_asked(words=words, zone=self.zone or "UTC", now=now)


def _csv(description: str) -> dict[str, object]:
    return {
        "responses": {
            200: {
                "description": description,
                "content": {"text/csv": {"schema": {"type": "string"}}},
            }
        }
    }


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
    openapi_extra=_csv("One line a unit and step."),
)
def consumption_csv(request: HttpRequest, query: Query[ReportQuery]) -> HttpResponseBase:
    """The figures of the page."""
    now = timezone.now()
    report = make_report(visible=who(request).visible, request=query.asked(now).request, now=now)
    name = csv_export.file_name(request=report.request, ending="csv")
    return streamed(csv_export.report_csv(report=report), name)


@router.get(
    "/intervals.csv",
    response={200: None, **READS},
    summary="The intervals as CSV",
    openapi_extra=_csv("One line an interval of holding, in constant memory."),
)
def intervals_csv(request: HttpRequest, query: Query[ReportQuery]) -> HttpResponseBase:
    """What the figures sum."""
    now = timezone.now()
    asked = query.asked(now).request
    name = csv_export.file_name(request=asked, what="intervals")
    parts = intervals.export(visible=who(request).visible, request=asked, now=now)
    return streamed(parts, name)
