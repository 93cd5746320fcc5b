"""A small distributed training: each rank computes on its part, all agree on the sum, over sockets.

It shows what a gang is given (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and what it needs: all of
its ranks. A rank that goes missing ends the others; rank 0 keeps the one checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path

_CONNECT_S = 60.0
_SIGTERM_EXIT = 128 + signal.SIGTERM
_PEER_LOST_EXIT = 4
_FLOAT = struct.Struct("!d")


class PeerLost(Exception):
    """Another rank does not answer any more."""


class Interrupted(Exception):
    """SIGTERM has come."""


class Ring:
    """All ranks, with rank 0 in the middle: it adds up and tells the sum."""

    def __init__(self, *, rank: int, size: int, address: tuple[str, int]) -> None:
        self._rank = rank
        self._peers: list[socket.socket] = []
        if size == 1:
            return
        if rank == 0:
            self._accept(size - 1, address)
        else:
            self._connect(address)

    def all_reduce(self, value: float) -> float:
        """Return the sum of all ranks' values: the same for each of them."""
        if self._rank == 0:
            total = value + sum(_receive(peer) for peer in self._peers)
            for peer in self._peers:
                _send(peer, total)
            return total
        for peer in self._peers:
            _send(peer, value)
            return _receive(peer)
        return value

    def _accept(self, count: int, address: tuple[str, int]) -> None:
        with socket.create_server(address, reuse_port=False) as server:
            server.settimeout(_CONNECT_S)
            for _ in range(count):
                self._peers.append(server.accept()[0])

    def _connect(self, address: tuple[str, int]) -> None:
        until_s = time.monotonic() + _CONNECT_S
        while True:
            try:
                self._peers.append(socket.create_connection(address, timeout=_CONNECT_S))
                return
            except OSError as error:
                if time.monotonic() > until_s:
                    raise PeerLost(f"rank 0 does not listen on {address}: {error}") from error
                time.sleep(0.1)


def _send(peer: socket.socket, value: float) -> None:
    try:
        peer.sendall(_FLOAT.pack(value))
    except OSError as error:
        raise PeerLost(str(error)) from error


def _receive(peer: socket.socket) -> float:
    data = b""
    while len(data) < _FLOAT.size:
        try:
            piece = peer.recv(_FLOAT.size - len(data))
        except OSError as error:
            raise PeerLost(str(error)) from error
        if not piece:
            raise PeerLost("the connection was closed")
        data += piece
    return float(_FLOAT.unpack(data)[0])


def say(rank: int, text: str) -> None:
    """Print a line with time and rank before it, at once."""
    print(time.strftime("[%H:%M:%S] ") + f"rank {rank}: {text}", flush=True)


def mark(**fields: object) -> None:
    """Tell Tidegate of a checkpoint or a resume."""
    print("TIDEGATE " + json.dumps(fields), flush=True)


def load(path: Path | None) -> tuple[int, float]:
    """Return the step and the estimate to go on from."""
    if path is None or not path.exists():
        return 0, 0.0
    stored = json.loads(path.read_text(encoding="utf-8"))
    mark(resumed=True, step=stored["step"], best=stored["estimate"])
    return int(stored["step"]), float(stored["estimate"])


def save(path: Path, *, step: int, estimate: float) -> None:
    """Keep step and estimate: written aside, synced, renamed."""
    aside = path.with_suffix(".new")
    with open(aside, "w", encoding="utf-8") as file:
        json.dump({"step": step, "estimate": estimate}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    mark(checkpoint=True, step=step, best=estimate, bytes=path.stat().st_size)


def compute(*, step: int, rank: int, size: int, terms: int) -> float:
    """Return this rank's part of a step: terms of the series for pi."""
    first = step * terms * size + rank * terms
    return sum((4.0 if n % 2 == 0 else -4.0) / (2 * n + 1) for n in range(first, first + terms))


def train(options: argparse.Namespace) -> None:
    """Go through the steps in agreement with the other ranks."""
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    address = (
        os.environ.get("MASTER_ADDR", "127.0.0.1"),
        int(os.environ.get("MASTER_PORT", "29500")),
    )
    directory = os.environ.get("CHECKPOINT_DIR")
    path = Path(directory) / "gang.json" if directory else None
    ring = Ring(rank=rank, size=size, address=address)
    say(rank, f"all {size} ranks are here")
    step, estimate = load(path) if rank == 0 else (0, 0.0)
    step = int(ring.all_reduce(step))  # rank 0 knows; the others add nothing
    while step < options.steps:
        part = compute(step=step, rank=rank, size=size, terms=options.terms)
        estimate += ring.all_reduce(part)
        step += 1
        if rank == 0:
            say(rank, f"step {step}/{options.steps} estimate={estimate:.6f}")
            if path is not None:
                save(path, step=step, estimate=estimate)
        time.sleep(options.step_seconds)
    ring.all_reduce(0.0)  # nobody leaves before all are done


def main() -> int:
    """Run one rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--step-seconds", type=float, default=1.0)
    parser.add_argument("--terms", type=int, default=20_000, help="a rank computes each step")
    rank = int(os.environ.get("RANK", "0"))

    def interrupt(_signum: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one changes nothing
        raise Interrupted

    signal.signal(signal.SIGTERM, interrupt)
    try:
        train(parser.parse_args())
    except Interrupted:
        say(rank, "!!! received SIGTERM (preempted) - the last step is already on disk")
        return _SIGTERM_EXIT
    except PeerLost as lost:
        say(rank, f"!!! a rank is gone ({lost}): half a gang is of no use")
        return _PEER_LOST_EXIT
    say(rank, ">>> finished")
    return 0


if __name__ == "__main__":
    sys.exit(main())
