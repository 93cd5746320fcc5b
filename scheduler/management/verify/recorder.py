"""Writes a run down while it goes on: what is said and checked, and what its work prints."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.db import DatabaseError, connection

from scheduler import models
from scheduler.engines.base import EngineUnreachable, ReplicaKey
from scheduler.management.verify import engines
from scheduler.management.verify.checks import Check, Result
from scheduler.management.verify.said import to_json
from scheduler.management.verify.scene import Watcher
from scheduler.models import VerificationLine
from scheduler.operations import verifications as operations
from scheduler.operations.verifications import Line

log = logging.getLogger(__name__)

EVERY_S = 0.5
#: Of what one workload prints between two looks at most so many lines are kept, and so many in all.
MOST_LINES_AT_ONCE = 6
MOST_OUTPUT = 4000
LOOK_BYTES = 64 * 1024
MOST_CHARACTERS = 400


class Recorder(Watcher):
    """Keeps the lines of one verification after the other.

    A thread writes them twice a second, so that a check never waits for the database, reads what
    the scratch pool's work prints, and interrupts the run where someone cancels it.
    """

    def __init__(self, *, run_id: int) -> None:
        self.run_id = run_id
        self._result_id = 0
        self._pool_name = ""
        self._lines: list[Line] = []
        self._output = _Output()
        self._keeping = threading.Lock()
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._interrupted = False
        self._thread = threading.Thread(target=self._write_for_ever, daemon=True)

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    # -- what it hears -----------------------------------------------------------------------------

    def begin(self, position: int) -> None:
        """Begin with the next verification."""
        self._result_id = operations.begin_result(run_id=self.run_id, position=position, now=_now())
        self._output = _Output()

    def end(self, result: Result) -> None:
        """Write how the verification ended, after all that was said of it."""
        self._flush()
        operations.end_result(
            result_id=self._result_id, passed=result.passed, trouble=result.trouble, now=_now()
        )

    def given(self, text: str) -> None:
        """Keep what is so before."""
        self._keep(VerificationLine.Kind.GIVEN, {"text": to_json(text)})

    def when(self, text: str) -> None:
        """Keep what is done."""
        self._keep(VerificationLine.Kind.WHEN, {"text": to_json(text)})

    def check(self, check: Check) -> None:
        """Keep a check."""
        kept = {name: to_json(value) for name, value in asdict(check).items()}
        self._keep(VerificationLine.Kind.CHECK, {**kept, "passed": check.passed})

    def step(self, text: str) -> None:
        """Keep what was done to the scratch pool."""
        self._keep(VerificationLine.Kind.STEP, {"text": to_json(text)})

    def opened(self, pool_name: str) -> None:
        """Show the scratch pool, and read what its work prints from now on."""
        operations.set_pool(result_id=self._result_id, pool_name=pool_name)
        self._pool_name = pool_name

    def closed(self) -> None:
        """Stop showing it: it is gone."""
        self._pool_name = ""
        operations.set_pool(result_id=self._result_id, pool_name="")

    def _keep(self, kind: VerificationLine.Kind, body: dict[str, Any]) -> None:
        with self._keeping:
            self._lines.append(Line(at=_now(), kind=kind, body=body))

    # -- the thread --------------------------------------------------------------------------------

    def _write_for_ever(self) -> None:
        try:
            while not self._ended.wait(EVERY_S):
                self._once(self._look)
                self._once(self._flush)
            self._flush()
        finally:
            connection.close()

    def _once(self, act: Callable[[], None]) -> None:
        """Do one of the thread's acts; a database or a node that is away for a moment is asked again."""
        try:
            act()
        except (DatabaseError, OSError, EngineUnreachable):
            log.warning("verify.record.failed", exc_info=True)

    def _flush(self) -> None:
        """Write what was kept, in its order; what could not be written is kept."""
        with self._writing:
            with self._keeping:
                lines, self._lines = self._lines, []
            if not lines:
                return
            try:
                operations.add_lines(result_id=self._result_id, lines=lines)
            except DatabaseError:
                with self._keeping:
                    self._lines = lines + self._lines
                raise

    def _look(self) -> None:
        if self._pool_name:
            for kind, body in self._output.read(self._pool_name):
                self._keep(kind, body)
        if not self._interrupted and operations.is_cancelled(run_id=self.run_id):
            self._interrupted = True
            os.kill(os.getpid(), signal.SIGINT)


class _Output:
    """What the work of one scratch pool has printed since the last look."""

    def __init__(self) -> None:
        self._offsets: dict[ReplicaKey, int] = {}
        self._kept = 0

    def read(self, pool_name: str) -> list[tuple[VerificationLine.Kind, dict[str, Any]]]:
        """Return new lines of output, a few of each replica."""
        found: list[tuple[VerificationLine.Kind, dict[str, Any]]] = []
        replicas = models.Replica.objects.filter(
            workload__pool__name=pool_name, launched_at__isnull=False
        ).order_by("id")
        for pk, attempt, name in replicas.values_list("id", "attempt", "workload__name"):
            for text in self._read_one(ReplicaKey(replica_id=pk, attempt=attempt)):
                if self._kept == MOST_OUTPUT:
                    return found
                self._kept += 1
                body = {"from": name, "text": text[:MOST_CHARACTERS]}
                found.append((VerificationLine.Kind.LOG, body))
        return found

    def _read_one(self, key: ReplicaKey) -> list[str]:
        """Return the whole lines that are new; of many the first and the last ones."""
        offset = self._offsets.get(key, 0)
        chunk = engines.engine().read_log(key, offset=offset, limit_bytes=LOOK_BYTES)
        whole, newline, _rest = chunk.data.rpartition(b"\n")
        if not newline:
            return []
        self._offsets[key] = chunk.offset + len(whole) + 1
        lines = whole.decode("utf-8", errors="replace").splitlines()
        if len(lines) <= MOST_LINES_AT_ONCE:
            return lines
        half = MOST_LINES_AT_ONCE // 2
        return [*lines[:half], f"... ({len(lines) - 2 * half})", *lines[-half:]]


def _now() -> datetime:
    return datetime.now(tz=UTC)
