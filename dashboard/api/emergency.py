"""Emergency controls: those in force in the caller's scope, set one, end one."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict
from scheduler.core.emergency import ControlKind
from scheduler.operations import emergency as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import emergency as queries
from scheduler.queries import emergency_words

router = Router(tags=["Emergency"])


class ControlOut(Schema):
    """One control. ``set_by`` is empty for who does not see its whole scope."""

    id: int
    kind: ControlKind
    scope_kind: str
    scope_name: str
    department_id: int | None
    project_id: int | None
    workload_id: int | None
    text: str
    reason: str
    set_by: str
    set_at: datetime
    until: datetime
    ended_at: datetime | None
    ended_by: str

    @staticmethod
    def of(row: queries.ControlRow) -> ControlOut:
        """Return a row as it is answered."""
        names = set(ControlOut.model_fields) - {"text"}
        return ControlOut(
            **{name: getattr(row, name) for name in names}, text=emergency_words.in_force(row)
        )


class ControlIn(Strict):
    """Pause the starts of a department, a project or (neither) the cluster; freeze reclaim and
    preemption in the cluster; or hold one workload. At most one of the three is named.
    """

    kind: ControlKind
    reason: str = Field(
        max_length=operations.MOST_REASON, description="Everyone concerned reads it."
    )
    until: lists.Instant = Field(description="At most 30 days from now.")
    department_id: lists.Id | None = None
    project_id: lists.Id | None = None
    workload_id: lists.Id | None = Field(None, description="Of a hold.")

    def order(self) -> operations.Order:
        """Return it as the operations take it."""
        return operations.Order(**{**self.model_dump(), "kind": self.kind.value})


@router.get("", response={200: list[ControlOut], **READS}, summary="Emergency controls")
def list_controls(
    request: HttpRequest,
    which: Literal["in_force", "past"] = param.Query(
        "in_force", description="The newest 50 of those that have ended."
    ),
) -> list[ControlOut]:
    """Those of the cluster concern everyone; others those who see their scope."""
    rows = queries.list_controls(
        visible=who(request).visible, now=timezone.now(), past=which == "past"
    )
    return [ControlOut.of(row) for row in rows]


@router.post("", response={201: ControlOut, **WRITES}, summary="Set an emergency control")
def set_control(request: HttpRequest, given: ControlIn) -> Status[ControlOut]:
    """One of the same kind over the same scope is replaced."""
    caller, now = who(request), timezone.now()
    made = operations.set_control(order=given.order(), authority=caller.authority, now=now)
    rows = queries.list_controls(visible=caller.visible, now=now)
    found = next((row for row in rows if row.id == made.pk), None)
    if found is None:
        raise NotFound("control")
    return Status(201, ControlOut.of(found))


@router.delete("/{control_id}", response={204: None, **WRITES}, summary="End an emergency control")
def end_control(request: HttpRequest, control_id: lists.Id) -> Status[None]:
    """Before its time; by who might set it."""
    operations.end_control(
        control_id=control_id, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)
