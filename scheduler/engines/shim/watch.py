"""The supervisor's loop: one replica from its first process to the end of its last."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from scheduler.engines import leases, records
from scheduler.engines.records import Order, Paths, State
from scheduler.engines.shim.marks import Found, FoundMark, MarkScanner
from scheduler.engines.shim.output import OutputLog
from scheduler.engines.shim.probe import Probe
from scheduler.engines.shim.reports import ReportLog
from scheduler.engines.shim.tree import BornTree, FoundTree, describe_status
from scheduler.host import identity, processes

_LOOK_S = 0.5  # how often to look at memory and at what can't wake us
_NEAR_WALL_S = 0.1
_ENDING_LOOK_S = 0.05
_HEARTBEAT_S = 5.0
_SAVE_S = 0.5
_READ_BYTES = 256 * 1024
_WALL_GRACE_S = 3
_START_TIMEOUT_GRACE_S = 10


class Watcher:
    """Watches one replica and writes down what happens to it. ``run`` returns when it is over."""

    def __init__(self, *, paths: Paths, order: Order, state: State) -> None:
        self.state = state
        self._paths = paths
        self._order = order
        self._log = OutputLog(
            directory=order["log_dir"], limit_bytes=order["log_limit_mib"] * 2**20
        )
        self._marks = MarkScanner()
        self._reports = ReportLog(path=paths.progress)
        self._output = os.open(paths.output, os.O_RDWR | os.O_NONBLOCK)
        self._control = os.open(paths.control, os.O_RDWR | os.O_NONBLOCK)
        self._tree: BornTree | FoundTree | None = None
        self._exit_watch: int | None = None
        self._probe: Probe | None = None
        self._first_ended = False
        self._kill_at_s: float | None = None
        self._killed = False
        self._start_deadline_s: float | None = None
        self._look_at_s = 0.0
        self._heartbeat_at_s = 0.0
        self._saved: State | None = None
        self._save_at_s = 0.0
        self._asked_to_end = False

    def watch_born(self, pid: int) -> None:
        """Watch a replica whose first process this one has just started."""
        self._tree = BornTree(pid=pid, marker=records.marker_of(self._order))
        self._begin_service()
        self.run()

    def watch_found(self, tree: FoundTree) -> None:
        """Watch a replica whose first supervisor is gone."""
        self._tree = tree
        first = self.state["process"]
        if first is not None:
            self._exit_watch = identity.open_exit_watch(identity.Identity(*first))
        if self.state["term_sent_at_s"] is not None:
            left_s = self.state["term_sent_at_s"] + self._grace_s() - time.time()
            self._kill_at_s = time.monotonic() + max(left_s, 0)
        self._begin_service()
        self.run()

    def run(self) -> None:
        """Look, act, write down, until no process of the replica is left."""
        self._listen_to_signals()
        self.save(force=True)
        while not self._is_over():
            self._wait()
            self._drain_output()
            self._note_end_of_first()
            self._read_stop_request()
            self._follow_readiness()
            self._look_around()
            self._end_when_cut_off()
            self._kill_when_due()
            self._beat()
            self.save()
            self._reports.save()
        self._drain_output()
        self._log.close()
        self._reports.save(force=True)
        self.write_end()

    # -- what can happen ---------------------------------------------------------------------

    def _wait(self) -> None:
        now_s = time.monotonic()
        ending = self._first_ended or self._killed
        until_s = now_s + _ENDING_LOOK_S if ending else self._look_at_s
        for due_s in (self._kill_at_s, self._start_deadline_s):
            if due_s is not None and not self._killed:
                until_s = min(until_s, due_s)
        poller = select.poll()
        poller.register(self._output, select.POLLIN)
        poller.register(self._control, select.POLLIN)
        if self._exit_watch is not None and not self._first_ended:
            poller.register(self._exit_watch, select.POLLIN)
        poller.poll(max(until_s - now_s, 0) * 1000 + 1)
        with contextlib.suppress(BlockingIOError):
            os.read(self._control, 4096)

    def _drain_output(self) -> None:
        for _ in range(64):  # bounded: a flood must not keep us from all else
            try:
                data = os.read(self._output, _READ_BYTES)
            except BlockingIOError:
                return
            self._log.write(data)
            for mark in self._marks.feed(data):
                self._note_mark(mark)

    def _note_mark(self, mark: Found) -> None:
        if not isinstance(mark, FoundMark):
            self._reports.add(mark)
            return
        match mark.kind:
            case "resumed":
                self.state["resumed"] = mark.record
            case "failed":
                self.state["checkpoint_error"] = mark.error
            case "checkpoint":
                self.state["checkpoint"] = mark.record
                self.state["checkpoint_count"] += 1
                self.state["checkpoint_error"] = ""

    def _note_end_of_first(self) -> None:
        if isinstance(self._tree, BornTree):
            status = self._tree.reap()
            if status is None:
                return
        elif not self._first_ended and not self._is_first_alive():
            handle = self._exit_watch
            status = None if handle is None else identity.find_wait_status(handle)
        else:
            return
        self._first_ended = True
        if status is not None:
            self.state["exit_code"], self.state["signal"] = describe_status(status)
        self._begin_stop(cause="exited", reason="", grace_s=self._order["grace_s"])

    def _is_first_alive(self) -> bool:
        first = self.state["process"]
        return first is not None and identity.is_alive(identity.Identity(*first))

    def _read_stop_request(self) -> None:
        if self._asked_to_end:
            self._asked_to_end = False
            grace_s = self._order["grace_s"]
            self._begin_stop(cause="terminated", reason="supervisor", grace_s=grace_s)
        request = records.find_stop_request(self._paths)
        if request is None:
            return
        if request["over_memory"] and not self.state["over_memory"]:
            self.state["over_memory"], self.state["message"] = True, request["over_memory"]
        cause = "over_memory" if request["over_memory"] else "terminated"
        self._begin_stop(cause=cause, reason=request["reason"], grace_s=request["grace_s"])

    def _follow_readiness(self) -> None:
        if self._probe is None:
            return
        self.state["ready"] = self._probe.ready and not self._is_stopping()
        if self.state["ready"] and self.state["ready_at_s"] is None:
            self.state["ready_at_s"] = time.time()
            self.state["phase"] = "running"
            self._start_deadline_s = None
        if self._start_deadline_s is not None and time.monotonic() >= self._start_deadline_s:
            self._start_deadline_s = None
            self.state["message"] = f"not ready within {self._order['start_timeout_s']} s"
            grace_s = min(self._order["grace_s"], _START_TIMEOUT_GRACE_S)
            self._begin_stop(cause="start_timeout", reason="", grace_s=grace_s)

    def _look_around(self) -> None:
        """Note, now and then, which processes there are and what they hold."""
        now_s = time.monotonic()
        if now_s < self._look_at_s or self._tree is None:
            return
        self._look_at_s = now_s + _LOOK_S
        found = map(identity.identify, self._tree.list_strays())
        strays = [(who.pid, who.start_ticks, who.boot_id) for who in found]
        if strays != self.state.get("strays", []):
            self.state["strays"] = strays
        self._watch_memory(now_s)

    def _watch_memory(self, now_s: float) -> None:
        wall_mib = self._order["wall_mib"]
        if wall_mib is None or not self._order["wall_is_resident"] or self._tree is None:
            return
        used_mib = processes.resident_mib(self._tree.list_members(), exact_above_mib=wall_mib)
        self.state["memory_peak_mib"] = max(used_mib, self.state["memory_peak_mib"] or 0)
        if used_mib > wall_mib // 2:
            self._look_at_s = now_s + _NEAR_WALL_S
        if used_mib > wall_mib:
            self._report_over_memory(used_mib=used_mib, wall_mib=wall_mib)

    def _report_over_memory(self, *, used_mib: int, wall_mib: int) -> None:
        if not self.state["over_memory"]:
            self.state["over_memory"] = True
            self.state["message"] = f"used {used_mib} MiB of a slice of {wall_mib} MiB"
        if self._order["wall_stops"]:
            far_beyond = used_mib > 2 * wall_mib
            grace_s = 0 if far_beyond else min(self._order["grace_s"], _WALL_GRACE_S)
            self._begin_stop(cause="over_memory", reason="", grace_s=grace_s)

    def _end_when_cut_off(self) -> None:
        """End the work of a machine that is out of touch: it will be started again elsewhere.

        Work that is stopping already has no longer than that either.
        """
        lease = self._order.get("lease", "")
        over_for_s = leases.age_s(lease) - self._order["lease_s"] if lease else -1.0
        if over_for_s > 0:  # a supervisor that came late has less of the grace to give
            grace_s = min(self._order["grace_s"], max(0.0, leases.GRACE_S - over_for_s))
            self._begin_stop(cause="lost", reason="out_of_touch", grace_s=grace_s)

    # -- ending ------------------------------------------------------------------------------

    def _begin_stop(self, *, cause: str, reason: str, grace_s: float) -> None:
        """Start to end it: the first cause is the cause, the earliest end holds."""
        kill_at_s = time.monotonic() + grace_s
        if not self._is_stopping():
            self.state["phase"] = "stopping"
            self.state["ready"] = False
            self.state["cause"] = cause
            self.state["stop_reason"] = reason
            self._kill_at_s = kill_at_s
            self._send_term(cause)
            self.save(force=True)
            return
        if self._kill_at_s is not None:
            self._kill_at_s = min(self._kill_at_s, kill_at_s)

    def _send_term(self, cause: str) -> None:
        assert self._tree is not None
        if cause != "exited":
            self.state["term_sent_at_s"] = time.time()
            why = self.state["stop_reason"] or cause
            self._drain_output()
            self._log.write(f"{self._log.line_break}--- SIGTERM, {why} ---\n".encode())
        self._tree.signal_all(signal.SIGTERM)

    def _kill_when_due(self) -> None:
        if self._kill_at_s is None or time.monotonic() < self._kill_at_s:
            return
        assert self._tree is not None
        self._killed = True
        self._tree.signal_all(signal.SIGKILL)

    def _is_stopping(self) -> bool:
        return self.state["phase"] == "stopping"

    def _is_over(self) -> bool:
        if not self._first_ended:
            return False
        assert self._tree is not None
        return not self._tree.list_members()

    def write_end(self) -> None:
        """Write down that it is over; on a full volume, as soon as that can be done."""
        cause = self.state["cause"]
        is_known = cause != "lost" and (cause != "exited" or self._has_status())
        self.state["phase"] = "exited" if is_known else "lost"
        if not is_known:
            self.state["cause"] = "lost"
        self.state["ended_at_s"] = time.time()
        self.state["ready"] = False
        while not self.save(force=True) and os.path.exists(self._paths.directory):
            time.sleep(_SAVE_S)

    def _has_status(self) -> bool:
        return self.state["exit_code"] is not None or self.state["signal"] is not None

    # -- bookkeeping -------------------------------------------------------------------------

    def _begin_service(self) -> None:
        port = self._order["port"]
        if port is None:
            if not self._is_stopping():
                self.state["phase"], self.state["ready"] = "running", True
                self.state["ready_at_s"] = self.state["ready_at_s"] or time.time()
            return
        if self.state["ready_at_s"] is None:
            since_start_s = time.time() - self.state["started_at_s"]
            left_s = self._order["start_timeout_s"] - max(since_start_s, 0)
            self._start_deadline_s = time.monotonic() + max(left_s, 0)
        self._probe = Probe(
            host=records.host_of(self._order),
            port=port,
            path=self._order["readiness_path"],
            on_change=self._wake_self,
        )
        self._probe.start()

    def _wake_self(self) -> None:
        records.poke(self._paths.control)

    def _grace_s(self) -> int:
        request = records.find_stop_request(self._paths)
        return self._order["grace_s"] if request is None else request["grace_s"]

    def _listen_to_signals(self) -> None:
        def ask_to_end(_signum: int, _frame: object) -> None:
            self._asked_to_end = True

        os.set_blocking(self._control, False)
        signal.set_wakeup_fd(self._control, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
        signal.signal(signal.SIGTERM, ask_to_end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _beat(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._heartbeat_at_s:
            self._heartbeat_at_s = now_s + _HEARTBEAT_S
            try:
                os.utime(self._paths.heartbeat)
            except FileNotFoundError:  # the data were removed: nobody could end it later
                self._begin_stop(cause="terminated", reason="data removed", grace_s=0)

    def save(self, *, force: bool = False) -> bool:
        """Write the state down if it changed, at most so often; tell whether it is written."""
        self.state["log_disk_full"] = self._log.disk_full
        now_s = time.monotonic()
        if self.state == self._saved or not (force or now_s >= self._save_at_s):
            return self.state == self._saved
        self._save_at_s = now_s + _SAVE_S
        try:
            records.write_json(self._paths.state, self.state, reserve=self._paths.reserve)
        except OSError:  # a full volume: it stays in memory and is tried again
            return False
        turned = self._saved is None or self._saved["phase"] != self.state["phase"]
        self._saved = self.state.copy()
        if turned:
            records.poke(self._order["wake_path"])
        return True
