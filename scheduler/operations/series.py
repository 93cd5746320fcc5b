"""Numbers over time that never take more than so much room: of each stretch the extremes are kept."""

from __future__ import annotations

from collections.abc import Iterable

MOST_POINTS = 600
_FIRST_WIDTH_MS = 1_000

#: Milliseconds since 1970, and the value then.
Point = tuple[int, float]


def add(points: Iterable[Point], *, width_ms: int, new: Iterable[Point]) -> tuple[list[Point], int]:
    """Return a series with new points, and how wide its stretches are now.

    Of each stretch the least and the largest stay, and of all the last point: peaks stay to be seen and
    all of a long run is as fine as its end.
    """
    kept = sorted({*points, *new}, key=lambda point: point[0])
    while len(kept) > MOST_POINTS:
        width_ms = max(_FIRST_WIDTH_MS, width_ms * 2)
        kept = _extremes(kept, width_ms)
    return kept, width_ms


def _extremes(points: list[Point], width_ms: int) -> list[Point]:
    stretches: dict[int, list[Point]] = {}
    for point in points:
        stretches.setdefault(point[0] // width_ms, []).append(point)
    kept = {points[-1]}
    for inside in stretches.values():
        kept.add(min(inside, key=lambda point: point[1]))
        kept.add(max(inside, key=lambda point: point[1]))
    return sorted(kept, key=lambda point: point[0])
