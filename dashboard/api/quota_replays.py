"""Replays: the submissions of the last days played as things were and with a draft of quotas."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
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
from dashboard.api.pools import pool_named
from dashboard.api.quotas import QuotaIn, edits_of, tree_of, wanted_values
from dashboard.api.submission import Strict
from scheduler.operations import quota_replays as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import quota_replays as queries

router = Router(tags=["Quotas"])


class ReplayIn(Strict):
    """A draft, and over how many days it is to be played."""

    pool: str = Field("", max_length=63, description="Empty: the first pool.")
    rows: list[QuotaIn] = Field(min_length=1, max_length=2000)
    days: Literal[7, 30] = 7


class FiguresOut(Schema):
    """One unit in one run. Hours are GPU hours, cost is in the cluster's currency, as decimal text."""

    submitted: int
    wait_mean_s: int | None
    wait_p95_s: int | None
    never_started: int
    interruptions: int
    held_h: Decimal
    unused_h: Decimal
    cost: Decimal | None


class ReplayRowOut(Schema):
    """One department or project, as things were and with the draft."""

    name: str
    is_department: bool
    before: FiguresOut
    after: FiguresOut


class ReplayOut(Schema):
    """One replay. ``names``: the rows that its draft changes; null is told to who sees the cluster only.

    ``cut_short``: its process is gone; ``ended_early``: the time was not enough to play all of it.
    """

    id: int
    pool_name: str
    days: int
    requested_by: str
    requested_at: datetime
    status: str
    cut_short: bool
    progress_permille: int
    names: list[str]
    since: datetime | None
    until: datetime | None
    ended_early: bool
    submitted: int | None
    free_before_h: Decimal | None
    free_after_h: Decimal | None
    rows: list[ReplayRowOut]


@router.post(
    "/replays", response={201: ReplayOut, **WRITES}, summary="Replay the last days with a draft"
)
def ask_replay(request: HttpRequest, given: ReplayIn) -> Status[ReplayOut]:
    """Submissions of the last days are played as things were and with the draft; ask on with its id."""
    tree = tree_of(request, given.pool)
    wanted = wanted_values(request, tree, given.rows)
    made = operations.ask_replay(
        pool_id=tree.pool.id,
        days=int(given.days),
        edits=edits_of(tree, wanted),
        authority=who(request).authority,
        now=timezone.now(),
    )
    return Status(201, _find_replay(request, made.pk))


@router.get("/replays", response={200: lists.Page[ReplayOut], **READS}, summary="Replays of drafts")
def list_replays(
    request: HttpRequest,
    pool: str = param.Query("", max_length=63),
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[ReplayOut]:
    """One's own, or all for who sees the whole cluster; without the units. The newest first."""
    caller = who(request)
    found = queries.list_replays(
        visible=caller.visible,
        username=caller.authority.name,
        pool_id=pool_named(request, pool).id,
        now=timezone.now(),
    )
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[ReplayOut](
        items=[ReplayOut.from_orm(row) for row in rows], next=following, total=len(found)
    )


@router.get("/replays/{replay_id}", response={200: ReplayOut, **READS}, summary="One replay")
def read_replay(request: HttpRequest, replay_id: lists.Id) -> ReplayOut:
    """How far it is, or both runs side by side, unit by unit as far as one sees them."""
    return _find_replay(request, replay_id)


def _find_replay(request: HttpRequest, replay_id: int) -> ReplayOut:
    caller = who(request)
    found = queries.find_replay(
        visible=caller.visible,
        username=caller.authority.name,
        replay_id=replay_id,
        now=timezone.now(),
    )
    if found is None:
        raise NotFound("replay")
    return ReplayOut.from_orm(found)
