"""How figures are taken: CPU seconds of this process, the best of some tries."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence


def cpu_seconds(act: Callable[[], object], *, tries: int = 3) -> float:
    """Return the least CPU time that ``act`` took, in seconds."""
    best = math.inf
    for _ in range(tries):
        gc.collect()
        started = time.process_time()
        act()
        took = time.process_time() - started
        best = min(best, took)
    return best


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of a straight line through (size, cost) in double logarithmic scale."""
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - middle_x) ** 2 for x in xs)
