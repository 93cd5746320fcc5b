"""How figures are taken: CPU seconds of this process, the best of some tries, within a limit."""

from __future__ import annotations

import gc
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

#: No goal takes longer to measure than this, in CPU seconds of this process.
LIMIT_S = 180.0


class TookTooLong(Exception):
    """What was measured did not end within the limit."""


def cpu_seconds(act: Callable[[], object], *, tries: int = 3) -> float:
    """Return the least CPU time that ``act`` took, in seconds."""
    return best_of(lambda: act, tries=tries)


def best_of(prepare: Callable[[], Callable[[], object]], *, tries: int = 3) -> float:
    """Return the least CPU time of what ``prepare`` returns, made anew for each try and not counted."""
    best = math.inf
    for _ in range(tries):
        act = prepare()
        gc.collect()
        started = time.process_time()
        act()
        took = time.process_time() - started
        best = min(best, took)
        if took > LIMIT_S / tries:
            break
    return best


@contextmanager
def limited(limit_s: float = LIMIT_S) -> Iterator[None]:
    """Stop what runs inside once this process has used ``limit_s`` seconds of CPU.

    Raises:
        TookTooLong: it did.
    """

    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of a straight line through (size, cost) in double logarithmic scale."""
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - middle_x) ** 2 for x in xs)
