"""Check 3 told in numbers: why no device takes a request, node by node, and what would fit."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.books import Books, NodeBook
from scheduler.core.session import Session
from scheduler.core.shape import Shape, has_labels, has_model
from scheduler.core.snapshot import Node
from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Lack, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why a request has no place. Amounts are in the unit of ``resource``."""

    reason: Reason
    resource: str
    requested: int
    free: int
    largest: int
    lacks: dict[str, int]


def find_shortage(session: Session, books: Books, shape: Shape, count: int) -> Shortage:
    """Return why ``count`` replicas of ``shape`` have no place in ``books``."""
    empty = session.empty_books
    able = [at for at in shape.nodes if empty.nodes[at].slots(shape)]
    resource, free, asked = _total_short(books, shape, count)
    if not able:
        reason, asked = Reason.NO_MATCHING_NODE, _asked(shape, resource)
    elif free < asked:
        reason = Reason.INSUFFICIENT_RESOURCES
    else:
        reason = Reason.FRAGMENTED
    return Shortage(
        reason=reason,
        resource=resource,
        requested=asked,
        free=free,
        largest=_largest(books, shape, resource),
        lacks=_count_lacks(session, books, shape),
    )


def _total_short(books: Books, shape: Shape, count: int) -> tuple[str, int, int]:
    """Return (resource, free, asked) of what is short in all; of GPU, or what is asked, if none is."""
    nodes = [books.nodes[at] for at in shape.nodes]
    rows = []
    if shape.devices:
        free_mgpu = sum(mgpu for node in nodes for mgpu in _usable(node, shape))
        rows.append(("gpu", free_mgpu, shape.replica_mgpu * count))
    if shape.devices and shape.gpu_memory_mib:
        free_mib = sum(
            max(0, mib)
            for node in nodes
            for mib, mgpu in zip(node.free_mib, node.free_mgpu, strict=True)
            if mgpu > 0
        )
        rows.append(("gpu_memory", free_mib, shape.gpu_memory_mib * shape.devices * count))
    if shape.cpu_milli:
        free_cpu = sum(max(0, node.free_cpu_milli) for node in nodes)
        rows.append(("cpu", free_cpu, shape.cpu_milli * count))
    if shape.memory_mib:
        free_memory = sum(max(0, node.free_memory_mib) for node in nodes)
        rows.append(("memory", free_memory, shape.memory_mib * count))
    if not rows:
        return ("gpu", 0, 0)
    return next((row for row in rows if row[1] < row[2]), rows[0])


def _asked(shape: Shape, resource: str) -> int:
    """Return what one replica asks for of ``resource``."""
    return {
        "gpu": shape.replica_mgpu,
        "gpu_memory": shape.gpu_memory_mib * shape.devices,
        "cpu": shape.cpu_milli,
        "memory": shape.memory_mib,
    }[resource]


def _usable(node: NodeBook, shape: Shape) -> list[int]:
    """Return the free amounts of the devices that ``shape`` may use, largest first."""
    return sorted(
        (
            mgpu
            for mgpu, model in zip(node.free_mgpu, node.models, strict=True)
            if mgpu > 0 and (not shape.models or model in shape.models)
        ),
        reverse=True,
    )


def _largest(books: Books, shape: Shape, resource: str) -> int:
    """Return the most of ``resource`` that one replica of this kind would get on some node now."""
    nodes = [books.nodes[at] for at in shape.nodes]
    if resource == "cpu":
        return max((max(0, node.free_cpu_milli) for node in nodes), default=0)
    if resource == "memory":
        return max((max(0, node.free_memory_mib) for node in nodes), default=0)
    if resource == "gpu_memory":
        free = (_free_mib(node, shape) for node in nodes)
    else:
        free = (_usable(node, shape) for node in nodes)
    if shape.is_whole:
        whole = [row.count(WHOLE_GPU_MGPU) * WHOLE_GPU_MGPU for row in free]
        return max(whole, default=0)
    return max(
        (row[shape.devices - 1] * shape.devices for row in free if len(row) >= shape.devices),
        default=0,
    )


def _free_mib(node: NodeBook, shape: Shape) -> list[int]:
    return sorted(
        (
            mib
            for mib, mgpu, model in zip(node.free_mib, node.free_mgpu, node.models, strict=True)
            if mgpu > 0 and mib > 0 and (not shape.models or model in shape.models)
        ),
        reverse=True,
    )


def _count_lacks(session: Session, books: Books, shape: Shape) -> dict[str, int]:
    counts: dict[str, int] = {}
    for at, node in enumerate(session.nodes):
        lack = _lack_of(session, books, shape, node, at)
        if lack is not None:
            counts[lack.value] = counts.get(lack.value, 0) + 1
    return dict(sorted(counts.items()))


def _lack_of(session: Session, books: Books, shape: Shape, node: Node, at: int) -> Lack | None:
    """Return what the node at ``at`` lacks first for one replica; None: it would take one."""
    if not node.schedulable:
        return Lack.NOT_SCHEDULABLE
    if at not in shape.nodes:
        labels = shape.key[5]
        fits = has_labels(node, labels) and has_model(node, shape)
        allowed = shape.key[6]
        if not has_labels(node, labels) or (fits and allowed is not None):
            return Lack.LABELS
        return Lack.GPU_MODEL
    book = books.nodes[at]
    if not session.empty_books.nodes[at].slots(shape):
        return _capacity_lack(session.empty_books.nodes[at], shape)
    if book.slots(shape):
        return None
    if book.free_cpu_milli < shape.cpu_milli:
        return Lack.CPU
    if book.free_memory_mib < shape.memory_mib:
        return Lack.MEMORY
    enough = sum(_usable(book, shape)) >= shape.replica_mgpu
    return Lack.GPU_FRAGMENTED if enough else Lack.GPU


def _capacity_lack(empty: NodeBook, shape: Shape) -> Lack:
    if empty.free_cpu_milli < shape.cpu_milli:
        return Lack.CPU
    if empty.free_memory_mib < shape.memory_mib:
        return Lack.MEMORY
    return Lack.DEVICES
