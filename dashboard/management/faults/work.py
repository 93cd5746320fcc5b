"""The work of a fault run: it notes by itself when it runs, and holds a lock that no other may hold.

Started as a file by the product, like any work; standard library alone. A note is one line of JSON in a
file that only this run of the work writes.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import FrameType

STEP_S = 0.5


class Notes:
    """What one process says of itself, on a clock that no step moves."""

    def __init__(self, folder: Path, name: str) -> None:
        rank = os.environ.get("RANK", "0")
        own = f"{name}.{rank}"
        self._lock = (folder / f"{own}.lock").open("a", encoding="utf-8")
        self._file = (folder / f"{own}.{os.getpid()}.notes").open("a", encoding="utf-8")

    def take(self) -> bool:
        """Take the lock of this work, which goes with the process; tell whether it was free."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def say(self, what: str, **more: object) -> None:
        replica = os.environ.get("TIDEGATE_REPLICA", "")
        told = {"at": time.clock_gettime(time.CLOCK_MONOTONIC), "what": what, "replica": replica}
        self._file.write(json.dumps({**told, **more}) + "\n")
        self._file.flush()


class Asked(Exception):
    """SIGTERM came."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "serve"])
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _raise_asked)
    try:
        if given.what == "serve":
            name = f"{given.name}.{os.environ['TIDEGATE_REPLICA']}"
            _serve(Notes(given.notes, name))
        else:
            _train(Notes(given.notes, given.name), given.steps)
    except Asked:
        sys.exit(143)


def _raise_asked(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Asked


def _train(notes: Notes, steps: int) -> None:
    notes.say("begins" if notes.take() else "double")
    file = Path(os.environ["CHECKPOINT_DIR"]) / f"steps.{os.environ.get('RANK', '0')}"
    step = int(file.read_text(encoding="ascii")) if file.exists() else 0
    notes.say("resumes", step=step)
    try:
        while step < steps:
            time.sleep(STEP_S)
            step += 1
            _save(file, step, notes)
    except Asked:
        notes.say("stops", step=step)
        raise
    notes.say("done", step=step)


def _save(file: Path, step: int, notes: Notes) -> None:
    draft = file.with_suffix(".draft")
    try:
        with open(draft, "w", encoding="ascii") as out:
            out.write(str(step))
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    except OSError as error:  # a full disk: what was saved before stays the last
        _mark(checkpoint=False, error=error.strerror)
        return
    notes.say("saved", step=step)
    _mark(checkpoint=True, step=step)


def _mark(**told: object) -> None:
    sys.stdout.write("TIDEGATE " + json.dumps(told) + "\n")
    sys.stdout.flush()


def _serve(notes: Notes) -> None:
    notes.say("begins" if notes.take() else "double")
    server = ThreadingHTTPServer((os.environ["HOST"], int(os.environ["PORT"])), _Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        while True:
            time.sleep(STEP_S)
    except Asked:
        notes.say("stops")
        server.shutdown()
        raise


class _Answers(BaseHTTPRequestHandler):
    """Health, and a chat whose answer takes a moment."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({"ok": True})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(0.1)
        choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}}
        self._answer({"object": "chat.completion", "choices": [choice]})

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests."""

    def _answer(self, body: dict[str, object]) -> None:
        sent = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


if __name__ == "__main__":
    main()
