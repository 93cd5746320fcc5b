"""What a report over the API covers, as its address says it, and how a file is told of in the document."""

from __future__ import annotations

from datetime import datetime

from ninja import Schema
from ninja.params import functions as param

from dashboard.api.lists import Id
from reports.asked import Asked, Preset, parse_asked
from reports.consumption import Segment
from reports.periods import Bucket
from scheduler.core.vocabulary import Kind


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


def file_answer(description: str, kind: str = "text/csv") -> dict[str, object]:
    """Return what the document says of an endpoint that answers a file."""
    schema = {"type": "string"} if kind == "text/csv" else {"type": "string", "format": "binary"}
    return {"responses": {200: {"description": description, "content": {kind: {"schema": schema}}}}}
