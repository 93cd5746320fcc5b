"""The audit log."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from ninja import Router, Schema
from ninja.params import functions as param

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS
from dashboard.audit_scopes import audit_scopes
from scheduler.operations.refused import NotFound
from scheduler.queries import audit_log

router = Router(tags=["Audit"])


class ChangeOut(Schema):
    """One value, before and after, as text."""

    name: str
    before: str
    after: str


class AuditOut(Schema):
    """One entry."""

    id: int
    at: datetime
    actor: str
    door: str
    address: str
    action: str
    object_kind: str
    object_id: int | None
    object_name: str
    reason: str
    result: str
    changes: list[ChangeOut]


@router.get("", response={200: lists.Page[AuditOut], **READS}, summary="The audit log")
def read_log(
    request: HttpRequest,
    actor: str = param.Query("", max_length=150),
    action: str = param.Query("", max_length=100),
    result: str = param.Query("", max_length=20),
    q: str = param.Query("", max_length=100),
    from_at: lists.Instant | None = param.Query(None),
    to_at: lists.Instant | None = param.Query(None),
    after: int | None = param.Query(None, ge=0, le=2**62),
) -> lists.Page[AuditOut]:
    """The newest first. Who may read no log finds none."""
    scopes = audit_scopes(who(request).authority)
    if scopes is None:
        raise NotFound("audit log")
    page = audit_log.read_page(
        scopes=scopes,
        wanted=audit_log.AuditFilter(
            actor=actor,
            action=action,
            result=result,
            text=q,
            from_at=from_at,
            to_at=to_at,
            before_id=after,
        ),
    )
    return lists.Page[AuditOut](
        items=[
            AuditOut(
                **{name: getattr(row, name) for name in AuditOut.model_fields if name != "changes"},
                changes=[
                    ChangeOut(name=name, before=before, after=after_)
                    for name, before, after_ in row.changes
                ],
            )
            for row in page.rows
        ],
        next=str(page.next_before_id) if page.next_before_id else None,
    )
