"""Quotas: the tree of a pool, what changing it would do, and the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from pydantic import Field

from dashboard import problems
from dashboard.api import conditions
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.lists import Id
from dashboard.api.pools import pool_named
from dashboard.api.shapes import LossOut, NamedWorkload
from dashboard.api.submission import Strict
from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Level
from scheduler.operations import quota_rules
from scheduler.operations import quotas as operations
from scheduler.operations.refused import NotFound, Problem, QuotaRefused
from scheduler.queries.quota_preview import preview_quotas
from scheduler.queries.quota_tree import Key, QuotaTree, read_pool_tree

router = Router(tags=["Quotas"])


class QuotaOut(Schema):
    """A department's or project's row in a pool. ``limit_mgpu`` null: no limit.

    ``known`` false: the caller sees only the name of that department.
    """

    level: Level
    id: int
    name: str
    department_id: int
    known: bool
    quota_mgpu: int
    limit_mgpu: int | None
    over_quota: bool
    rank: int
    weight_milli: int
    held_mgpu: int
    protected_mgpu: int
    version: int


class QuotaTreeOut(Schema):
    """Each department followed by its projects. Send ``etag`` as If-Match with a change."""

    pool: str
    capacity_mgpu: int
    etag: str
    rows: list[QuotaOut]


class QuotaIn(Strict):
    """New values of one row. What is left out stays as it is; ``limit_mgpu`` -1: no limit."""

    level: Level
    id: Id
    quota_mgpu: int | None = Field(None, ge=0, le=UNLIMITED_MGPU - 1)
    limit_mgpu: int | None = Field(None, ge=-1, le=UNLIMITED_MGPU - 1)
    over_quota: bool | None = None
    rank: int | None = Field(None, ge=0, le=32_767)
    weight_milli: int | None = Field(None, ge=0, le=2**31 - 1)


class QuotasIn(Strict):
    """A draft: all of its rows are saved, or none."""

    pool: str = Field("", max_length=63, description="Empty: the first pool.")
    rows: list[QuotaIn] = Field(min_length=1, max_length=2000)
    reason: str = Field("", max_length=500)


class QuotaPreviewOut(Schema):
    """What the scheduler would do with the draft that it would not do as things are."""

    warnings: list[str]
    interrupts: list[LossOut]
    starts: list[NamedWorkload]
    entitled: list[NamedWorkload]
    never: list[NamedWorkload]
    touches_others: bool
    loses_work: bool


class QuotasSavedOut(QuotaTreeOut):
    """The tree as it is now, and what was warned of."""

    warnings: list[str]


@router.get("", response={200: QuotaTreeOut, **READS}, summary="The tree of quotas")
def read_quotas(
    request: HttpRequest,
    response: HttpResponse,
    pool: str = param.Query("", max_length=63),
) -> QuotaTreeOut:
    """The rows that the caller sees of one pool."""
    tree = tree_of(request, pool)
    response["ETag"] = _etag(tree)
    return _out(tree)


@router.post("/preview", response={200: QuotaPreviewOut, **WRITES}, summary="Try a draft out")
def preview(request: HttpRequest, given: QuotasIn) -> QuotaPreviewOut:
    """Nothing is written. A draft that can't be saved is refused as saving it would be."""
    tree = tree_of(request, given.pool)
    wanted = wanted_values(request, tree, given.rows)
    changed = tree.with_quotas(wanted)
    found = operations.find_refusals(tree=changed, edited=wanted)
    if found:
        raise QuotaRefused(found)
    seen = preview_quotas(
        visible=who(request).visible, tree=tree, wanted=wanted, now=timezone.now()
    )
    return QuotaPreviewOut(
        warnings=[
            problems.in_words(each)
            for each in quota_rules.find_warnings(tree=changed, edited=wanted)
        ],
        interrupts=[LossOut.of(each) for each in seen.losses],
        starts=[NamedWorkload.of(each) for each in seen.starts],
        entitled=[NamedWorkload.of(each) for each in seen.entitled],
        never=[NamedWorkload.of(each) for each in seen.never],
        touches_others=seen.touches_others,
        loses_work=seen.loses_work,
    )


@router.put("", response={200: QuotasSavedOut, **WRITES}, summary="Change quotas")
def save_quotas(
    request: HttpRequest,
    response: HttpResponse,
    given: QuotasIn,
    if_match: str = param.Header("", alias="If-Match", max_length=200),
) -> QuotasSavedOut:
    """Needs If-Match with the tree's ETag, so that nobody's change is overwritten unseen."""
    tree = tree_of(request, given.pool)
    wanted = wanted_values(request, tree, given.rows)
    conditions.require_match(_etag(tree), given=if_match, needed=True)
    warned = operations.set_quotas(
        pool_id=tree.pool.id,
        edits=edits_of(tree, wanted),
        authority=who(request).authority,
        now=timezone.now(),
        reason=given.reason,
    )
    saved = tree_of(request, given.pool)
    response["ETag"] = _etag(saved)
    return QuotasSavedOut(
        **_out(saved).model_dump(), warnings=[problems.in_words(each) for each in warned]
    )


def edits_of(tree: QuotaTree, wanted: dict[Key, QueueQuota]) -> list[operations.QuotaEdit]:
    """Return a draft as the operations take it, on the versions that were read."""
    return [
        operations.QuotaEdit(level=key[0], id=key[1], values=quota, version=_version(tree, key))
        for key, quota in wanted.items()
    ]


def tree_of(request: HttpRequest, pool: str) -> QuotaTree:
    """Return the rows that the caller sees of a pool."""
    return read_pool_tree(visible=who(request).visible, pool=pool_named(request, pool))


def wanted_values(
    request: HttpRequest, tree: QuotaTree, rows: Sequence[QuotaIn]
) -> dict[Key, QueueQuota]:
    """Return a draft as the whole values of its rows, each of which the caller may change.

    Raises:
        NotFound, NotPermitted: a row that is not there for the caller, or is another's to change.
        QuotaRefused: a row that is there twice.
    """
    wanted: dict[Key, QueueQuota] = {}
    twice: list[Problem] = []
    for place, each in enumerate(rows):
        operations.find_unit((each.level, each.id), who(request).authority)
        row = tree.row((each.level, each.id))
        if row is None or not row.known:
            raise NotFound(each.level.value)
        values = each.model_dump(exclude={"level", "id"}, exclude_none=True)
        if values.get("limit_mgpu") == -1:
            values["limit_mgpu"] = UNLIMITED_MGPU
        if row.key in wanted:
            told = f"{row.name} is in the draft twice. Keep one row of it."
            about: dict[str, object] = {"name": row.name}
            field = f"rows.{place}.id"
            twice.append(Problem(field=field, code="unit_twice", message=told, params=about))
        wanted[row.key] = quota_rules.normalized(replace(row.quota, **values))
    if twice:
        raise QuotaRefused(twice)
    return wanted


def _version(tree: QuotaTree, key: Key) -> int:
    row = tree.row(key)
    assert row is not None
    return row.version


def _etag(tree: QuotaTree) -> str:
    return conditions.etag(
        tree.pool.id, *((row.unit, row.version, asdict(row.quota)) for row in tree.rows)
    )


def _out(tree: QuotaTree) -> QuotaTreeOut:
    return QuotaTreeOut(
        pool=tree.pool.name,
        capacity_mgpu=tree.capacity_mgpu,
        etag=_etag(tree),
        rows=[
            QuotaOut(
                level=row.level,
                id=row.id,
                name=row.name,
                department_id=row.department_id,
                known=row.known,
                quota_mgpu=row.quota.quota_mgpu,
                limit_mgpu=None
                if row.quota.effective_limit_mgpu >= UNLIMITED_MGPU
                else row.quota.effective_limit_mgpu,
                over_quota=row.quota.over_quota,
                rank=row.quota.rank,
                weight_milli=row.quota.weight_milli,
                held_mgpu=row.held_mgpu,
                protected_mgpu=row.protected_mgpu,
                version=row.version,
            )
            for row in tree.rows
        ],
    )
