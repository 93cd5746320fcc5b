"""Who one is, and what one was told."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS
from scheduler.operations import notices as operations
from scheduler.queries import notices
from scheduler.queries.phrases import plain

router = Router(tags=["Me"])


class RoleOut(Schema):
    """A role over one scope."""

    role: str
    scope: str
    scope_id: int | None


class MeOut(Schema):
    """The caller as the product knows it."""

    name: str
    roles: list[RoleOut]


class NoticeOut(Schema):
    """One thing that the caller was told."""

    id: int
    at: datetime
    text: str
    unread: bool


@router.get("", response={200: MeOut, **READS}, summary="Who am I")
def me(request: HttpRequest) -> MeOut:
    """Name and roles of the caller as they are now."""
    authority = who(request).authority
    return MeOut(
        name=authority.name,
        roles=[
            RoleOut(
                role=role.value,
                scope="cluster" if scope is None else scope[0],
                scope_id=None if scope is None else scope[1],
            )
            for scope, role in authority.roles
        ],
    )


@router.get("/notices", response={200: lists.Page[NoticeOut], **READS}, summary="What I was told")
def list_notices(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[NoticeOut]:
    """The newest first."""
    rows, following = lists.cut(
        notices.list_notices(username=who(request).authority.name, visible=who(request).visible),
        after=after,
        limit=limit,
        key=lambda row: row.id,
    )
    return lists.Page[NoticeOut](
        items=[
            NoticeOut(id=row.id, at=row.at, text=plain(row.text), unread=row.unread) for row in rows
        ],
        next=following,
    )


@router.post("/notices/seen", response={204: None, **READS}, summary="Mark them as seen")
def mark_seen(request: HttpRequest) -> Status[None]:
    """All that there are now."""
    operations.mark_seen(username=who(request).authority.name, now=timezone.now())
    return Status(204, None)
