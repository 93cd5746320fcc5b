"""Decisions: what the scheduler and people did, with the checks that it rests on; as a stream too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime

from channels.db import database_sync_to_async
from django.http import HttpRequest, HttpResponseBase
from django.http.response import StreamingHttpResponse
from ninja import Router, Schema
from ninja.params import functions as param

from dashboard.api import lists
from dashboard.api.callers import Caller, who
from dashboard.api.errors import READS
from scheduler.operations.refused import NotFound
from scheduler.queries import history
from scheduler.queries.phrases import plain

router = Router(tags=["Decisions"])
#: How often the stream looks for new decisions, and how long it may be silent.
LOOK_S = 1.0
SILENT_S = 15.0
AT_ONCE = 200


class CheckOut(Schema):
    """One comparison that a decision rests on."""

    text: str
    holds: bool


class VictimOut(Schema):
    """One workload that was interrupted, as far as the caller may know it."""

    name: str
    freed_mgpu: int | None
    about: str


class DecisionOut(Schema):
    """One act, in words."""

    id: int
    at: datetime
    cycle: int
    verb: str
    text: str
    workload_id: int | None
    project_id: int | None
    checks: list[CheckOut]
    victims: list[VictimOut]

    @staticmethod
    def of(row: history.DecisionRow) -> DecisionOut:
        """Return a decision as it is answered."""
        return DecisionOut(
            id=row.id,
            at=row.at,
            cycle=row.cycle,
            verb=row.verb,
            text=plain(row.text),
            workload_id=row.workload_id,
            project_id=row.project_id,
            checks=[CheckOut(text=each.text, holds=each.holds) for each in row.checks],
            victims=[
                VictimOut(name=plain(each.name), freed_mgpu=each.freed_mgpu, about=each.about)
                for each in row.victims
            ],
        )


@router.get("", response={200: lists.Page[DecisionOut], **READS}, summary="List decisions")
def list_decisions(
    request: HttpRequest,
    verb: str = param.Query("", max_length=20),
    project_id: int | None = param.Query(None, ge=0, le=2**62),
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[DecisionOut]:
    """The newest first."""
    rows = history.list_decisions(
        visible=who(request).visible,
        wanted=history.DecisionFilter(
            verb=verb, project_id=project_id, before_id=after, limit=limit
        ),
    )
    return lists.Page[DecisionOut](
        items=[DecisionOut.of(row) for row in rows],
        next=str(rows[-1].id) if len(rows) == limit else None,
    )


@router.get(
    "/stream",
    response={200: None, **READS},
    summary="Decisions as they come",
    openapi_extra={
        "responses": {
            200: {
                "description": "Server-sent events; each one's id is that of its decision.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        }
    },
)
def stream(
    request: HttpRequest,
    last_event_id: int | None = param.Header(None, alias="Last-Event-ID", ge=0, le=2**62),
) -> HttpResponseBase:
    """Server-sent events. With Last-Event-ID it goes on where a broken one ended, none left out."""
    caller = who(request)
    answer = StreamingHttpResponse(_events(caller, last_event_id), content_type="text/event-stream")
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    return answer


@router.get("/{decision_id}", response={200: DecisionOut, **READS}, summary="One decision")
def decision(request: HttpRequest, decision_id: lists.Id) -> DecisionOut:
    """With the checks that it rests on, and whom it interrupted."""
    row = history.read_decision(visible=who(request).visible, decision_id=decision_id)
    if row is None:
        raise NotFound("decision")
    return DecisionOut.of(row)


async def _events(caller: Caller, last_id: int | None) -> AsyncIterator[bytes]:
    """Yield decisions as events; rights are read anew each time, so that a lost one ends the flow."""
    newest = last_id
    silent_s = 0.0
    yield b"retry: 2000\n\n"
    while True:
        rows = await database_sync_to_async(_since)(caller, newest)
        if rows is None:
            return
        if newest is None:
            newest = rows[-1].id if rows else 0
            rows = []
        for row in rows:
            newest = row.id
            data = json.dumps(DecisionOut.of(row).model_dump(mode="json"), ensure_ascii=False)
            yield f"id: {row.id}\nevent: decision\ndata: {data}\n\n".encode()
        if rows:
            silent_s = 0.0
            continue
        await asyncio.sleep(LOOK_S)
        silent_s += LOOK_S
        if silent_s >= SILENT_S:
            silent_s = 0.0
            yield b": still here\n\n"


def _since(caller: Caller, newest: int | None) -> tuple[history.DecisionRow, ...] | None:
    """Return the decisions after ``newest``, the oldest first; the newest one where that is None.

    None where the caller may no longer call.
    """
    authority = caller.renew()
    if authority is None:
        return None
    return history.list_decisions_after(visible=authority.visible, after_id=newest, limit=AT_ONCE)
