"""Nodes and their GPUs: list, keep new work away, let it come again, and what draining one would do."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES, ErrorOut
from dashboard.api.pools import pool_named
from dashboard.api.shapes import LossOut, NamedWorkload
from dashboard.api.submission import Strict
from scheduler.core.drain import AtDeadline, Stay
from scheduler.operations import drains
from scheduler.operations import nodes as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import devices, what_if
from scheduler.queries import drains as drain_queries
from scheduler.queries import nodes as queries

router = Router(tags=["Nodes"])


class NodeOut(Schema):
    """One machine."""

    id: int
    name: str
    gpu_model: str
    virtual: bool
    lost: bool
    cordoned: bool
    draining: bool
    last_seen_at: datetime | None
    devices: int
    held_mgpu: int
    free_mgpu: int | None

    @staticmethod
    def of(row: queries.NodeRow) -> NodeOut:
        """Return a node as it is answered."""
        node = row.node
        return NodeOut(
            id=node.id,
            name=node.name,
            gpu_model=node.gpu_model,
            virtual=node.virtual,
            lost=node.lost,
            cordoned=node.cordoned,
            draining=node.draining,
            last_seen_at=node.last_seen_at,
            devices=len(row.devices),
            held_mgpu=row.held_mgpu,
            free_mgpu=row.free_mgpu,
        )


class DeviceProcessOut(Schema):
    """The process of one replica on a GPU. ``pid`` is its first one; what is used is of all.

    ``used_mib`` null: not measured yet, or of a replica on several GPUs, where only the sum is known.
    """

    workload_id: int
    workload_name: str
    project_name: str
    kind: str
    ordinal: int
    pid: int | None
    phase: str
    mgpu: int
    granted_mib: int
    used_mib: int | None
    utilization_permille: int | None
    sampled_at: datetime | None
    device_count: int


class DeviceDetailOut(Schema):
    """One GPU. ``free_mgpu`` null: not told, since the cluster's setting hides what others hold."""

    node_name: str
    index: int
    uuid: str
    model: str
    memory_mib: int | None
    virtual: bool
    healthy: bool
    processes: list[DeviceProcessOut]
    others_mgpu: int
    free_mgpu: int | None


class DrainPreviewOut(Schema):
    """What draining would do with the work on the node, found by the scheduler itself."""

    moves: list[NamedWorkload]
    waits: list[NamedWorkload]
    interrupts: list[LossOut]
    touches_others: bool


class DrainIn(Strict):
    """How a node is to be emptied. ``at_deadline``: what becomes of what is still there then."""

    deadline: lists.Instant | None = None
    at_deadline: AtDeadline = AtDeadline.WAIT


class LeftOut(Schema):
    """A workload that is still there: it leaves, is to be replaced first, or is waited for."""

    id: int
    name: str
    project: str
    replicas: int
    stay: Stay
    reason_code: str


class DrainOut(Schema):
    """How far the emptying of a node is. ``found``: the workloads that were there when it began."""

    began_at: datetime
    began_by: str
    deadline: datetime | None
    at_deadline: AtDeadline
    emptied_at: datetime | None
    found: int
    left: list[LeftOut]

    @staticmethod
    def of(row: drain_queries.Drain) -> DrainOut:
        """Return a drain as it is answered."""
        return DrainOut(
            began_at=row.began_at,
            began_by=row.began_by,
            deadline=row.deadline,
            at_deadline=row.at_deadline,
            emptied_at=row.emptied_at,
            found=row.found,
            left=[
                LeftOut(
                    id=each.id,
                    name=each.name,
                    project=each.project_name,
                    replicas=each.replicas,
                    stay=each.stay,
                    reason_code=each.reason_code,
                )
                for each in row.left
            ],
        )


@router.get("", response={200: lists.Page[NodeOut], **READS}, summary="List nodes")
def list_nodes(
    request: HttpRequest,
    pool: str = param.Query("", max_length=63),
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[NodeOut]:
    """Of one pool, by name."""
    if pool:
        pool = pool_named(request, pool).name
    found = queries.list_nodes(visible=who(request).visible, pool_name=pool)
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.node.id)
    return lists.Page[NodeOut](
        items=[NodeOut.of(row) for row in rows], next=following, total=len(found)
    )


@router.post("/{node_id}/cordon", response={204: None, **WRITES}, summary="Cordon a node")
def cordon(request: HttpRequest, node_id: lists.Id) -> Status[None]:
    """No new work comes; what runs there goes on."""
    operations.set_cordoned(
        node_id=node_id, cordoned=True, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)


@router.post("/{node_id}/uncordon", response={204: None, **WRITES}, summary="Uncordon a node")
def uncordon(request: HttpRequest, node_id: lists.Id) -> Status[None]:
    """New work may come again."""
    operations.set_cordoned(
        node_id=node_id, cordoned=False, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)


@router.get(
    "/{node_id}/devices/{index}",
    response={200: DeviceDetailOut, **READS},
    summary="One GPU with its processes",
)
def device(
    request: HttpRequest, node_id: lists.Id, index: int = param.Path(ge=0, le=10_000)
) -> DeviceDetailOut:
    """The processes that one may see, with the memory that each was granted and uses."""
    visible = who(request).visible
    for row in queries.list_nodes(visible=visible):
        if row.node.id == node_id:
            found = devices.read_device(visible=visible, node_name=row.node.name, index=index)
            if found is not None:
                return DeviceDetailOut.from_orm(found)
    raise NotFound("device")


@router.get(
    "/{node_id}/drain-preview",
    response={200: DrainPreviewOut, 403: ErrorOut, **READS},
    summary="What draining it would do",
)
def drain_preview(request: HttpRequest, node_id: lists.Id) -> DrainPreviewOut:
    """Who would go on elsewhere, who would wait, whom that would interrupt; for those who drain nodes."""
    operations.require_nodes(who(request).authority)
    found = what_if.preview_drain(visible=who(request).visible, node_id=node_id, now=timezone.now())
    if found is None:
        raise NotFound("node")
    return DrainPreviewOut(
        moves=[NamedWorkload.of(each) for each in found.moves],
        waits=[NamedWorkload.of(each) for each in found.waits],
        interrupts=[LossOut.of(each) for each in found.losses],
        touches_others=found.touches_others,
    )


@router.get(
    "/{node_id}/drain",
    response={200: DrainOut, 403: ErrorOut, **READS},
    summary="How far its emptying is",
)
def drain_progress(request: HttpRequest, node_id: lists.Id) -> DrainOut:
    """What has left and what is still there, and why; 404 where it is not being emptied."""
    operations.require_nodes(who(request).authority)
    found = drain_queries.list_drains(now=timezone.now()).get(node_id)
    if found is None:
        raise NotFound("drain")
    return DrainOut.of(found)


@router.post("/{node_id}/drain", response={202: DrainOut, **WRITES}, summary="Drain a node")
def drain(request: HttpRequest, node_id: lists.Id, given: DrainIn) -> Status[DrainOut]:
    """Nothing new comes; what is there leaves, is replaced first, or is waited for."""
    drains.begin_drain(
        node_id=node_id,
        deadline=given.deadline,
        at_deadline=given.at_deadline,
        authority=who(request).authority,
        now=timezone.now(),
    )
    found = drain_queries.list_drains(now=timezone.now()).get(node_id)
    if found is None:  # someone has ended it since
        raise NotFound("drain")
    return Status(202, DrainOut.of(found))


@router.post("/{node_id}/undrain", response={204: None, **WRITES}, summary="End a drain")
def undrain(request: HttpRequest, node_id: lists.Id) -> Status[None]:
    """New work may come again; what has left is not called back."""
    drains.end_drain(node_id=node_id, authority=who(request).authority, now=timezone.now())
    return Status(204, None)
