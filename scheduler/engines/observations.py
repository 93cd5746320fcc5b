"""A replica's files as an Observation: numbers of the files become values of the protocol."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from scheduler.engines.base import (
    EndCause,
    Endpoint,
    EnginePhase,
    Mark,
    Observation,
    ProgressReport,
    ReplicaKey,
)
from scheduler.engines.records import MarkRecord, Order, ProgressRecord, State, host_of
from scheduler.host import identity


def utc(seconds: float) -> datetime:
    """Return an instant given in seconds since 1970."""
    return datetime.fromtimestamp(seconds, tz=UTC)


def _maybe_utc(seconds: float | None) -> datetime | None:
    return None if seconds is None else utc(seconds)


def from_records(
    *, key: ReplicaKey, order: Order, state: State | None, last_seen_at_s: float
) -> Observation:
    """Return what the files tell. Before the supervisor has spoken, the replica is starting."""
    if state is None:
        return Observation(
            key=key,
            workload_id=order["workload_id"],
            node_name=order["node_name"],
            phase=EnginePhase.STARTING,
            last_seen_at=utc(last_seen_at_s),
        )
    process = state["process"]
    port = order["port"]
    return Observation(
        key=key,
        workload_id=order["workload_id"],
        node_name=order["node_name"],
        phase=EnginePhase(state["phase"]),
        last_seen_at=utc(last_seen_at_s),
        ready=state["ready"],
        started_at=utc(state["started_at_s"]),
        ready_at=_maybe_utc(state["ready_at_s"]),
        term_sent_at=_maybe_utc(state["term_sent_at_s"]),
        ended_at=_maybe_utc(state["ended_at_s"]),
        cause=None if state["cause"] is None else EndCause(state["cause"]),
        stop_reason=state["stop_reason"],
        exit_code=state["exit_code"],
        signal=state["signal"],
        message=state["message"],
        over_memory=state["over_memory"],
        memory_peak_mib=state["memory_peak_mib"],
        log_disk_full=state["log_disk_full"],
        pid=None if process is None else process[0],
        pid_started_at=_started_at(process),
        supervisor_pid=state["supervisor"][0],
        endpoint=None if port is None else Endpoint(host=host_of(order), port=port),
        checkpoint=mark_of(state["checkpoint"]),
        checkpoint_count=state["checkpoint_count"],
        checkpoint_error=state["checkpoint_error"],
        resumed=mark_of(state["resumed"]),
        adopted=state["adopted"],
    )


def _started_at(process: tuple[int, int, str] | None) -> datetime | None:
    if process is None:
        return None
    known = identity.Identity(*process)
    if known.boot_id != identity.read_boot_id():
        return None  # ticks of another boot mean nothing now
    return utc(identity.started_at_s(known))


def mark_of(record: MarkRecord | None) -> Mark | None:
    """Return a mark as the protocol has it."""
    if record is None:
        return None
    return Mark(
        at=utc(record["at_s"]),
        step=record["step"],
        epoch=record["epoch"],
        elapsed_s=_decimal(record["elapsed_s"]),
        best=_decimal(record["best"]),
        size_bytes=record["size_bytes"],
    )


def progress_report(record: ProgressRecord) -> ProgressReport:
    """Return one report of how far a replica is."""
    return ProgressReport(
        number=record["number"],
        at=utc(record["at_s"]),
        step=record["step"],
        total=record["total"],
        epoch=record["epoch"],
        metrics=tuple(sorted(record["metrics"].items())),
    )


def _decimal(value: str | int | None) -> Decimal | None:
    return None if value is None else Decimal(value)
