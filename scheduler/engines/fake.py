"""An engine in memory, with time that is told: for tests of what uses an engine.

It is an engine like any other and passes the same contract. What its replicas do is said by their
command: ``("fake", "exit=3", "after=10", "ready=2", "ignores-term")``; without ``after`` they run on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from scheduler.engines.base import (
    LIVE_PHASES,
    DeviceInfo,
    EndCause,
    Endpoint,
    EngineError,
    EnginePhase,
    EngineUnreachable,
    JoinedNode,
    LaunchRefused,
    LaunchSpec,
    LogChunk,
    Mark,
    NodeInventory,
    Observation,
    Orphan,
    ProgressReport,
    ReplicaKey,
    Standing,
)

_SIGTERM, _SIGKILL = 15, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Script:
    """What a replica does by itself, read from its command."""

    exit_code: int = 0
    after_s: int | None = None
    ready_after_s: int = 0
    ignores_term: bool = False

    @classmethod
    def read(cls, command: tuple[str, ...]) -> _Script:
        said = dict(word.partition("=")[::2] for word in command[1:])
        return cls(
            exit_code=int(said.get("exit", "0")),
            after_s=int(said["after"]) if "after" in said else None,
            ready_after_s=int(said.get("ready", "0")),
            ignores_term="ignores-term" in said,
        )


@dataclass(slots=True, kw_only=True)
class _Replica:
    spec: LaunchSpec
    script: _Script
    seen: Observation
    started_at: datetime
    kill_at: datetime | None = None


class FakeEngine:
    """Runs nothing and tells of it as if it did. ``advance`` lets time pass."""

    def __init__(self, *, now: datetime | None = None, devices: int = 1) -> None:
        self.now = now or datetime(2026, 1, 1, tzinfo=UTC)
        self.is_reachable = True
        self.standings: dict[str, Standing] = {}
        self.joined: tuple[JoinedNode, ...] = ()
        self._device_count = devices
        self._replicas: dict[ReplicaKey, _Replica] = {}
        self._logs: dict[ReplicaKey, bytes] = {}
        self._progress: dict[ReplicaKey, list[ProgressReport]] = {}
        self._launched: set[ReplicaKey] = set()
        self._next_port = 24_000

    # -- the protocol ------------------------------------------------------------------------

    def launch(self, spec: LaunchSpec) -> None:
        """Start the replica. Does nothing where this key was launched before, also if it ended."""
        self._answer()
        if spec.key in self._launched:
            return
        if not spec.command:
            raise LaunchRefused("there is no command to run")
        if spec.command[0] != "fake":
            raise LaunchRefused(f"{spec.command[0]}: no such command on this machine")
        self._launched.add(spec.key)
        self._next_port += 1
        port = None if spec.service is None else self._next_port
        self._replicas[spec.key] = _Replica(
            spec=spec,
            script=_Script.read(spec.command),
            started_at=self.now,
            seen=Observation(
                key=spec.key,
                workload_id=spec.workload_id,
                node_name=spec.node_name,
                phase=EnginePhase.STARTING,
                started_at=self.now,
                last_seen_at=self.now,
                pid=100_000 + len(self._launched),
                pid_started_at=self.now,
                endpoint=None if port is None else Endpoint(host="127.0.0.1", port=port),
            ),
        )
        self._settle()

    def observe(self) -> tuple[Observation, ...]:
        """Return all replicas that were launched and not forgotten, by key."""
        self._answer()
        seen = (self._replicas[key].seen for key in sorted(self._replicas))
        return tuple(one for one in seen if self.standing(one.node_name) is Standing.ANSWERS)

    def terminate(self, key: ReplicaKey, *, grace_s: int, reason: str) -> None:
        """End it: at once, or, if it ignores the signal, when the grace period is over."""
        self._answer()
        replica = self._replicas.get(key)
        if replica is None or replica.seen.phase not in LIVE_PHASES:
            return
        kill_at = self.now + timedelta(seconds=grace_s)
        if replica.kill_at is None:
            replica.kill_at = kill_at
            replica.seen = replace(
                replica.seen,
                phase=EnginePhase.STOPPING,
                ready=False,
                term_sent_at=self.now,
                cause=EndCause.TERMINATED,
                stop_reason=reason,
            )
        replica.kill_at = min(replica.kill_at, kill_at)
        self._settle()

    def forget(self, key: ReplicaKey) -> None:
        """Drop an ended replica, whose end is recorded. Its log stays readable."""
        self._answer()
        replica = self._replicas.get(key)
        if replica is None:
            return
        if replica.seen.phase in LIVE_PHASES:
            raise EngineError(f"replica {key} has not ended")
        del self._replicas[key]

    def read_log(self, key: ReplicaKey, *, offset: int | None, limit_bytes: int) -> LogChunk:
        """Return output from ``offset`` on, or the last ``limit_bytes`` where it is None."""
        self._answer()
        kept = self._logs.get(key, b"")
        start = max(len(kept) - limit_bytes, 0) if offset is None else min(offset, len(kept))
        data = kept[start : start + limit_bytes]
        return LogChunk(
            data=data, offset=start, next_offset=start + len(data), size_bytes=len(kept)
        )

    def read_progress(self, key: ReplicaKey, *, after: int) -> tuple[ProgressReport, ...]:
        """Return what a replica reported after report ``after``."""
        self._answer()
        return tuple(each for each in self._progress.get(key, ()) if each.number > after)

    def delete_log(self, key: ReplicaKey) -> None:
        """Drop the output of a replica."""
        self._answer()
        self._logs.pop(key, None)

    def delete_storage(self, storage_key: str) -> None:
        """Do nothing: there are no directories."""
        self._answer()

    def inventory(self) -> NodeInventory:
        """Return a machine with as many virtual devices as it was made with."""
        self._answer()
        devices = (
            DeviceInfo(
                index=index,
                uuid=f"VIRTUAL-fake-{index}",
                model="virtual",
                memory_mib=46_068,
                virtual=True,
            )
            for index in range(self._device_count)
        )
        return NodeInventory(
            hostname="fake", cpu_milli=8000, memory_mib=32_768, devices=tuple(devices)
        )

    def standing(self, node_name: str) -> Standing:
        """Return what a test has said of the node; it answers otherwise."""
        return self.standings.get(node_name, Standing.ANSWERS)

    def joined_nodes(self) -> tuple[JoinedNode, ...]:
        """Return the machines that a test lets join."""
        return self.joined

    def find_meeting_point(self, node_name: str) -> Endpoint:
        """Return a port that was not given before."""
        self._answer()
        self._next_port += 1
        return Endpoint(host="127.0.0.1", port=self._next_port)

    def orphans(self) -> tuple[Orphan, ...]:
        """Return nothing: nothing here can be orphaned."""
        self._answer()
        return ()

    def end_orphan(self, orphan: Orphan) -> None:
        """Do nothing."""

    # -- what a test says --------------------------------------------------------------------

    def wait_for_change(self, *, timeout_s: float) -> bool:
        """Return at once: time passes here only when it is told to."""
        return False

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        self._settle()

    def print_output(self, key: ReplicaKey, text: str) -> None:
        """Have a replica print."""
        self._logs[key] = self._logs.get(key, b"") + text.encode()

    def mark_checkpoint(self, key: ReplicaKey, **mark: object) -> None:
        """Have a replica mark a checkpoint, with the fields of a Mark."""
        seen = self._replicas[key].seen
        self._replicas[key].seen = replace(
            seen,
            checkpoint=Mark(at=self.now, **mark),  # type: ignore[arg-type]
            checkpoint_count=seen.checkpoint_count + 1,
        )

    def mark_resumed(self, key: ReplicaKey, **mark: object) -> None:
        """Have a replica say what it resumed from."""
        resumed = Mark(at=self.now, **mark)  # type: ignore[arg-type]
        self._replicas[key].seen = replace(self._replicas[key].seen, resumed=resumed)

    def report_progress(self, key: ReplicaKey, **report: object) -> None:
        """Have a replica report how far it is, with the fields of a ProgressReport."""
        own = self._progress.setdefault(key, [])
        own.append(
            ProgressReport(number=len(own) + 1, at=self.now, **report)  # type: ignore[arg-type]
        )

    def take_memory(self, key: ReplicaKey, *, mib: int) -> None:
        """Have a replica take more memory than it was granted; whether that ends it, its order says."""
        replica = self._replicas[key]
        replica.seen = replace(replica.seen, over_memory=True, memory_peak_mib=mib)
        if replica.spec.memory_wall:
            self._end(replica, cause=EndCause.OVER_MEMORY, signal=_SIGTERM)

    def kill(self, key: ReplicaKey, *, signum: int = _SIGKILL) -> None:
        """End a replica's process from outside."""
        self._end(self._replicas[key], cause=EndCause.EXITED, signal=signum)

    def lose(self, key: ReplicaKey) -> None:
        """Have a replica be gone without a trace, as by a reboot."""
        replica = self._replicas[key]
        replica.seen = replace(
            replica.seen,
            phase=EnginePhase.LOST,
            cause=EndCause.LOST,
            ready=False,
            ended_at=replica.seen.last_seen_at,
        )

    # -- the passing of time -----------------------------------------------------------------

    def _answer(self) -> None:
        if not self.is_reachable:
            raise EngineUnreachable("the engine was made unreachable")

    def _settle(self) -> None:
        for replica in self._replicas.values():
            if replica.seen.phase in LIVE_PHASES:
                if replica.seen.last_seen_at != self.now:
                    replica.seen = replace(replica.seen, last_seen_at=self.now)
                self._settle_one(replica)

    def _settle_one(self, replica: _Replica) -> None:
        script, age = replica.script, self.now - replica.started_at
        if replica.kill_at is not None:
            if not script.ignores_term:
                self._end(replica, cause=EndCause.TERMINATED, signal=_SIGTERM)
            elif self.now >= replica.kill_at:
                self._end(replica, cause=EndCause.TERMINATED, signal=_SIGKILL)
            return
        if script.after_s is not None and age >= timedelta(seconds=script.after_s):
            self._end(replica, cause=EndCause.EXITED, exit_code=script.exit_code)
            return
        service = replica.spec.service
        is_ready = service is None or age >= timedelta(seconds=script.ready_after_s)
        if is_ready and not replica.seen.ready:
            replica.seen = replace(
                replica.seen, phase=EnginePhase.RUNNING, ready=True, ready_at=self.now
            )
        elif not is_ready and service and age >= timedelta(seconds=service.start_timeout_s):
            self._end(replica, cause=EndCause.START_TIMEOUT, signal=_SIGTERM)

    def _end(
        self,
        replica: _Replica,
        *,
        cause: EndCause,
        exit_code: int | None = None,
        signal: int | None = None,
    ) -> None:
        replica.seen = replace(
            replica.seen,
            phase=EnginePhase.EXITED,
            ready=False,
            ended_at=self.now,
            last_seen_at=self.now,
            cause=cause,
            exit_code=exit_code,
            signal=signal,
        )
