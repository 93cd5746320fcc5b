"""The local engine: each replica is a real process of this machine, under a supervisor of its own.

The supervisor belongs to nobody: it outlives whoever launched it, writes down what happens, and is
found again through its files. Nothing about replicas is kept in memory here.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from scheduler.engines import devices, logs, orders, ports, records
from scheduler.engines.base import (
    LIVE_PHASES,
    Endpoint,
    EngineError,
    EnginePhase,
    EngineUnreachable,
    JoinedNode,
    LaunchSpec,
    LogChunk,
    NodeInventory,
    Observation,
    Orphan,
    ProgressReport,
    ReplicaKey,
    Standing,
)
from scheduler.engines.observations import from_records, progress_report, utc
from scheduler.engines.records import Order, Paths, State, StopRequest
from scheduler.engines.seat import AT_HOME, Seat
from scheduler.engines.shim.tree import find_marked, find_strays
from scheduler.engines.store import Store
from scheduler.host import identity, processes

log = logging.getLogger(__name__)

#: How long a supervisor may take to report before another is started: a first one, a later one.
_START_PATIENCE_S, _REVIVE_PATIENCE_S = 3.0, 0.5
_SUPERVISE = (
    "import sys; sys.path[:0] = [{root!r}]; from scheduler.engines.shim.main import main; main()"
)
_WALL_GRACE_S = 3
DEFAULT_PORT_RANGE = (24_000, 31_999)


class LocalEngine:
    """Runs replicas as processes of this machine. Safe to use from several processes at once."""

    def __init__(
        self,
        *,
        data_dir: Path,
        virtual_devices: int = 1,
        virtual_memory_mib: int = devices.DEFAULT_VIRTUAL_MEMORY_MIB,
        port_range: tuple[int, int] = DEFAULT_PORT_RANGE,
        read_device_memory: Callable[[], dict[int, int]] = devices.read_nvidia_memory_mib,
        seat: Seat = AT_HOME,
    ) -> None:
        self._root = data_dir.resolve() / "engine"
        self._replicas = self._root / "replicas"
        self._logs = self._root / "logs"
        self._storage = (seat.shared_dir or self._root) / "storage"
        self._seat = seat
        self._store = Store((seat.shared_dir or data_dir.resolve()) / "store")
        self._virtual_devices = virtual_devices
        self._virtual_memory_mib = virtual_memory_mib
        self._port_range = port_range
        self._read_device_memory = read_device_memory
        self._wake: int | None = None
        self._wake_path = str(self._root / "wake")
        self._launchers: list[subprocess.Popen[bytes]] = []
        self._supervisor_started_at_s: dict[ReplicaKey, float] = {}
        for directory in (self._replicas, self._logs, self._storage):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._engine_id = self._find_or_make_id()

    # -- the protocol ------------------------------------------------------------------------

    def launch(self, spec: LaunchSpec) -> None:
        """Start the replica. Does nothing where this key was launched before, also if it ended."""
        try:
            is_new = self._write_order(spec)
            if is_new:
                self._start_supervisor(spec.key)
        except OSError as error:  # a full volume, a machine out of processes: the next tick tries
            raise EngineUnreachable(f"replica {spec.key} could not be launched: {error}") from error

    def observe(self) -> tuple[Observation, ...]:
        """Return all replicas that were launched and not forgotten, by key."""
        self._reap_launchers()
        keys = sorted(ReplicaKey.parse(name) for name in os.listdir(self._replicas))
        found = [seen for key in keys if (seen := self._observe_one(key)) is not None]
        used_by_pid = self._read_device_memory()
        if not used_by_pid:
            return tuple(found)
        return tuple(
            self._watch_device_memory(seen, used_by_pid) if seen.phase in LIVE_PHASES else seen
            for seen in found
        )

    def terminate(self, key: ReplicaKey, *, grace_s: int, reason: str) -> None:
        """SIGTERM to every process, SIGKILL after the grace period. Returns at once."""
        paths = self._paths(key)
        if not os.path.exists(paths.order):
            return
        state = records.find_state(paths)
        if state is not None and state["ended_at_s"] is not None:
            return
        request = StopRequest(grace_s=grace_s, reason=reason, over_memory="")
        self._ask_to_end(key, request)

    def forget(self, key: ReplicaKey) -> None:
        """Drop an ended replica, whose end is recorded. Its log stays readable."""
        paths = self._paths(key)
        state = records.find_state(paths)
        if not os.path.exists(paths.directory):
            return
        if state is None or state["ended_at_s"] is None:
            raise EngineError(f"replica {key} has not ended")
        shutil.rmtree(paths.directory)
        self._supervisor_started_at_s.pop(key, None)

    def read_log(self, key: ReplicaKey, *, offset: int | None, limit_bytes: int) -> LogChunk:
        """Return output from ``offset`` on, or the last ``limit_bytes`` where it is None."""
        return logs.read_chunk(
            directory=str(self._logs / str(key)), offset=offset, limit_bytes=limit_bytes
        )

    def read_progress(self, key: ReplicaKey, *, after: int) -> tuple[ProgressReport, ...]:
        """Return what a replica that is not forgotten reported on its output after report ``after``."""
        found = records.find_progress(self._paths(key))
        return tuple(progress_report(each) for each in found if each["number"] > after)

    def delete_log(self, key: ReplicaKey) -> None:
        """Drop the output of a replica. That it was launched stays known."""
        log_dir = self._logs / str(key)
        for name in os.listdir(log_dir) if log_dir.exists() else ():
            (log_dir / name).unlink()

    def delete_storage(self, storage_key: str) -> None:
        """Drop the working and checkpoint directories of a workload that is no more."""
        directory = self._storage / storage_key
        if orders.is_storage_key(storage_key) and directory.exists():
            shutil.rmtree(directory)

    def inventory(self) -> NodeInventory:
        """Return what the machine has."""
        return devices.read_inventory(
            virtual_count=self._virtual_devices, virtual_memory_mib=self._virtual_memory_mib
        )

    def standing(self, node_name: str) -> Standing:
        """Return that every node answers: they are this machine."""
        return Standing.ANSWERS

    def joined_nodes(self) -> tuple[JoinedNode, ...]:
        """Return nothing: nobody joins one machine."""
        return ()

    def find_meeting_point(self, node_name: str) -> Endpoint:
        """Return where a gang can meet: an unused port, of no replica of this engine."""
        with self._locked():
            return Endpoint(host=self._seat.host, port=self._pick_port())

    def orphans(self) -> tuple[Orphan, ...]:
        """Return live processes that carry this engine's mark and belong to no known replica."""
        found = []
        for stat in find_marked({"TIDEGATE_ENGINE": self._engine_id}):
            key = ReplicaKey.parse(processes.read_environ(stat.pid)["TIDEGATE_REPLICA"])
            state = records.find_state(self._paths(key))
            if state is None or state["ended_at_s"] is not None:
                started_at = utc(identity.started_at_s(identity.identify(stat)))
                found.append(Orphan(key=key, pid=stat.pid, started_at=started_at))
        return tuple(found)

    def end_orphan(self, orphan: Orphan) -> None:
        """SIGKILL an orphan, if it still is the process that was listed."""
        marker = {"TIDEGATE_ENGINE": self._engine_id, "TIDEGATE_REPLICA": str(orphan.key)}
        for stat in find_marked(marker):
            if stat.pid == orphan.pid:
                identity.send_signal(identity.identify(stat), signal.SIGKILL)

    def wait_for_change(self, *, timeout_s: float) -> bool:
        """Wait until a replica may have turned to another phase, at most so long; tell whether."""
        handle = self._open_wake()
        readable, _, _ = select.select([handle], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError):  # another listener was quicker
            return bool(readable and os.read(handle, 65_536))
        return True

    def _open_wake(self) -> int:
        """Return the FIFO's handle of this process; read-write, so that it never ends."""
        if self._wake is None:
            with contextlib.suppress(FileExistsError):
                os.mkfifo(self._wake_path, 0o600)
            self._wake = os.open(self._wake_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        return self._wake

    # -- launching ---------------------------------------------------------------------------

    def _write_order(self, spec: LaunchSpec) -> bool:
        """Write down what to run, once for each key ever, and tell whether this was the time."""
        paths = self._paths(spec.key)
        log_dir = self._logs / str(spec.key)
        with self._locked():
            was_forgotten = log_dir.exists() and not os.path.exists(paths.directory)
            if was_forgotten or os.path.exists(paths.order):
                return False
            order = orders.make_order(
                spec=spec,
                engine_id=self._engine_id,
                folders=orders.Folders(
                    replica=paths.directory, output=log_dir, storage=self._storage
                ),
                store=self._store,
                wake_path=self._wake_path,
                port=None if spec.service is None else self._pick_port(),
                seat=self._seat,
            )
            os.makedirs(paths.directory, mode=0o700, exist_ok=True)
            log_dir.mkdir(mode=0o700, exist_ok=True)
            records.prepare(paths)
            records.write_json(paths.order, order)
            return True

    def _start_supervisor(self, key: ReplicaKey) -> None:
        paths = self._paths(key)
        root = str(Path(__file__).resolve().parents[2])
        isolated = ["-I", "-S"] if sys.platform == "linux" else ["-I"]  # elsewhere it needs psutil
        with open(paths.diary, "ab") as diary:
            launcher = subprocess.Popen(
                [sys.executable, *isolated, "-c", _SUPERVISE.format(root=root), paths.directory],
                stdin=subprocess.DEVNULL,
                stdout=diary,
                stderr=diary,
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )
        self._launchers.append(launcher)
        self._supervisor_started_at_s[key] = time.monotonic()

    def _pick_port(self) -> int:
        own_start = int(self._engine_id, 16)
        return ports.find_free(self._port_range, taken=self._list_taken_ports(), start=own_start)

    def _list_taken_ports(self) -> set[int]:
        taken: set[int] = set()
        for name in os.listdir(self._replicas):
            paths = Paths(str(self._replicas / name))
            order, state = records.find_order(paths), records.find_state(paths)
            if order is not None and (state is None or state["ended_at_s"] is None):
                taken.update(p for p in (order["port"], order["master_port"]) if p is not None)
        return taken

    def _ask_to_end(self, key: ReplicaKey, request: StopRequest) -> None:
        paths = self._paths(key)
        asked = records.find_stop_request(paths)
        if asked is None:
            records.write_json(paths.stop, request)
        elif request["grace_s"] < asked["grace_s"]:
            records.write_json(paths.stop, {**asked, "grace_s": request["grace_s"]})
        if not records.poke(paths.control):
            self.revive(key)

    # -- the wall of real devices ------------------------------------------------------------

    def _watch_device_memory(self, seen: Observation, used_by_pid: dict[int, int]) -> Observation:
        """Hold a replica on real devices to its slice; virtual ones are its supervisor's matter."""
        order = records.find_order(self._paths(seen.key))
        if order is None or order["wall_mib"] is None or order["wall_is_resident"]:
            return seen
        pids = {stat.pid for stat in processes.list_descendants(seen.supervisor_pid or 0)}
        pids |= {seen.pid} if seen.pid is not None else set()
        used_mib = sum(used_by_pid.get(pid, 0) for pid in pids)
        if used_mib <= order["wall_mib"]:
            return seen
        message = f"used {used_mib} MiB of a slice of {order['wall_mib']} MiB"
        if order["wall_stops"] and seen.phase is not EnginePhase.STOPPING:
            grace_s = min(order["grace_s"], _WALL_GRACE_S)
            self._ask_to_end(seen.key, StopRequest(grace_s=grace_s, reason="", over_memory=message))
        return replace(seen, over_memory=True, message=message, memory_peak_mib=used_mib)

    # -- finding again -----------------------------------------------------------------------

    def list_unended(self) -> dict[ReplicaKey, bool]:
        """Return each replica that has not ended, and whether a supervisor watches it."""
        found = {}
        for key in map(ReplicaKey.parse, os.listdir(self._replicas)):
            state = records.find_state(self._paths(key))
            if state is None or state["ended_at_s"] is None:
                found[key] = state is not None and _is_supervised(state)
        return found

    def _observe_one(self, key: ReplicaKey) -> Observation | None:
        paths = self._paths(key)
        order, state = records.find_order(paths), records.find_state(paths)
        if order is None:
            return None  # being launched, or being forgotten
        if state is None or (state["ended_at_s"] is None and not _is_supervised(state)):
            state = self.revive(key)
        is_watched = state is not None and _is_supervised(state)
        last_seen_at_s = time.time() if is_watched else _last_seen_s(paths, state)
        return from_records(key=key, order=order, state=state, last_seen_at_s=last_seen_at_s)

    def revive(self, key: ReplicaKey) -> State | None:
        """Give the replica a supervisor if it has none and needs one; return its state."""
        paths = self._paths(key)
        lock = records.try_lock(paths.lock)
        if lock is None:
            return records.find_state(paths)  # one is just taking over
        try:
            state = records.find_state(paths)
            if state is not None and state["ended_at_s"] is not None:
                return state
            order = records.find_order(paths)
            if state is not None and order is not None and not _is_any_alive(state, order):
                return _write_lost(paths, state)
        finally:
            os.close(lock)
        started_at_s = self._supervisor_started_at_s.get(key)
        patience_s = _START_PATIENCE_S if state is None else _REVIVE_PATIENCE_S
        if started_at_s is None or time.monotonic() - started_at_s > patience_s:
            log.warning("engine.supervisor.started_again", extra={"replica": str(key)})
            self._start_supervisor(key)
        return state

    def _reap_launchers(self) -> None:
        self._launchers = [launcher for launcher in self._launchers if launcher.poll() is None]

    # -- files -------------------------------------------------------------------------------

    def _paths(self, key: ReplicaKey) -> Paths:
        return Paths(str(self._replicas / str(key)))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._root / "lock", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _find_or_make_id(self) -> str:
        path = self._root / "id"
        with self._locked():
            if not path.exists():
                path.write_text(secrets.token_hex(8), encoding="ascii")
            return path.read_text(encoding="ascii").strip()


def _is_supervised(state: State) -> bool:
    return identity.is_alive(identity.Identity(*state["supervisor"]))


def _is_any_alive(state: State, order: Order) -> bool:
    first = state["process"]
    if first is not None and identity.is_alive(identity.Identity(*first)):
        return True
    return bool(find_strays(state) or find_marked(records.marker_of(order)))


def _write_lost(paths: Paths, state: State) -> State:
    state["phase"], state["cause"], state["ready"] = "lost", "lost", False
    state["ended_at_s"] = _last_seen_s(paths, state)
    records.write_json(paths.state, state, reserve=paths.reserve)
    return state


def _last_seen_s(paths: Paths, state: State | None) -> float:
    """Return the last sure sign of life; that it started is one, too."""
    try:
        beat_at_s = os.stat(paths.heartbeat).st_mtime
    except FileNotFoundError:
        return time.time()
    return beat_at_s if state is None else max(beat_at_s, state["started_at_s"])
