"""Loader processes: children that prepare the order of an epoch's pictures ahead of time."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection

import numpy as np


class Loaders:
    """Gives each epoch its order, from child processes where there are any."""

    def __init__(self, count: int, *, rows: int) -> None:
        self._rows = rows
        self._ends: list[Connection] = []
        self._children: list[multiprocessing.Process] = []
        for _ in range(count):
            here, there = multiprocessing.Pipe()
            child = multiprocessing.get_context("fork").Process(target=_serve, args=(there, rows))
            child.start()
            there.close()
            self._ends.append(here)
            self._children.append(child)

    def order_of(self, epoch: int) -> np.ndarray:
        """Return the order of pictures in an epoch: the same whenever it is asked for."""
        if not self._ends:
            return shuffled(epoch, self._rows)
        end = self._ends[epoch % len(self._ends)]
        end.send(epoch)
        return end.recv()

    def close(self) -> None:
        """End the children."""
        for end, child in zip(self._ends, self._children, strict=True):
            end.close()
            child.terminate()
            child.join()


def shuffled(epoch: int, rows: int) -> np.ndarray:
    """Return the rows in an order that depends on the epoch alone."""
    return np.random.default_rng(epoch).permutation(rows)


def _serve(end: Connection, rows: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            epoch = end.recv()
        except EOFError:
            return
        end.send(shuffled(epoch, rows))
