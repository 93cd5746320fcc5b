"""The cluster as a whole: its pools, and the figures of the Overview."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param

from dashboard.api.callers import who
from dashboard.api.errors import READS
from dashboard.api.pools import pool_named
from dashboard.api.shapes import ReasonOut
from scheduler.operations.refused import NotFound
from scheduler.queries import overview, pool_state
from scheduler.queries.phrases import plain

router = Router(tags=["Cluster"])


class PoolOut(Schema):
    """A node pool."""

    id: int
    name: str


class SliceOut(Schema):
    """What one workload holds of a device."""

    workload_id: int
    workload: str
    mgpu: int


class DeviceOut(Schema):
    """One GPU and what is on it. ``others_mgpu``: held by work outside of one's scopes."""

    node: str
    index: int
    model: str
    memory_mib: int | None
    virtual: bool
    healthy: bool
    others_mgpu: int
    held: list[SliceOut]


class WaitingOut(Schema):
    """One workload that waits, in its turn. ``asked_mgpu``: by all of its replicas."""

    id: int
    name: str
    project: str
    asked_mgpu: int
    since: datetime
    reason: ReasonOut


class OverviewOut(Schema):
    """The Overview's figures at one instant. Amounts in mGPU; None: not known to the reader."""

    pool: str
    at: datetime
    cycle: int
    sentence: str
    gpus: int
    schedulable_gpus: int
    capacity_mgpu: int
    held_mgpu: int
    computing_mgpu: int
    idle_mgpu: int
    borrowed_mgpu: int
    free_mgpu: int | None
    largest_mgpu: int | None
    waiting_count: int
    devices: list[DeviceOut]
    waiting: list[WaitingOut]


@router.get("/pools", response={200: list[PoolOut], **READS}, summary="Node pools")
def pools(request: HttpRequest) -> list[PoolOut]:
    """Those that the caller may choose."""
    return [
        PoolOut(id=pool.id, name=pool.name)
        for pool in pool_state.list_pools(visible=who(request).visible)
    ]


@router.get("/overview", response={200: OverviewOut, **READS}, summary="Overview")
def read_overview(request: HttpRequest, pool: str = param.Query("", max_length=63)) -> OverviewOut:
    """The state of one pool, as the map shows it."""
    found = overview.read_overview(
        visible=who(request).visible, pool_name=pool_named(request, pool).name, now=timezone.now()
    )
    if found is None:
        raise NotFound("node pool")
    tiles = found.tiles
    return OverviewOut(
        pool=found.pool.name,
        at=found.at,
        cycle=found.cycle,
        sentence=plain(found.lede),
        gpus=tiles.gpus,
        schedulable_gpus=tiles.schedulable,
        capacity_mgpu=tiles.capacity_mgpu,
        held_mgpu=tiles.held_mgpu,
        computing_mgpu=tiles.computing_mgpu,
        idle_mgpu=tiles.idle_mgpu,
        borrowed_mgpu=tiles.borrowed_mgpu,
        free_mgpu=tiles.free_mgpu,
        largest_mgpu=tiles.largest_mgpu,
        waiting_count=tiles.waiting,
        devices=_devices(found),
        waiting=[
            WaitingOut(
                id=row.id,
                name=row.name,
                project=row.project_name,
                asked_mgpu=row.request_mgpu,
                since=row.since,
                reason=ReasonOut(
                    code=row.code,
                    why=plain(row.why),
                    runs_when=plain(row.runs_when),
                    never=row.never,
                ),
            )
            for row in found.waiting
        ],
    )


def _devices(found: overview.Overview) -> list[DeviceOut]:
    names = {each.id: each.name for each in found.map.workloads.values()}
    return [
        DeviceOut(
            node=node.name,
            index=device.index,
            model=device.model,
            memory_mib=device.memory_mib,
            virtual=device.virtual,
            healthy=device.healthy,
            others_mgpu=device.others_mgpu,
            held=[
                SliceOut(
                    workload_id=each.workload_id,
                    workload=names[each.workload_id],
                    mgpu=each.mgpu,
                )
                for each in found.map.slices.get(device.id, ())
                if each.workload_id in names
            ],
        )
        for node in found.map.nodes
        for device in node.devices
    ]
