"""The chart of a workload's use: what was held as rectangles in our own SVG, without a library."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.queries.use_over_time import COLUMNS, UseOverTime

WIDTH, HEIGHT = 720, 96
_COLUMN = WIDTH // COLUMNS
#: Free above the highest amount.
_HEAD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """One mark. ``what``: computing, idle, unknown, or none where nothing was held."""

    what: str
    x: int
    y: float
    width: int
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Marks from the lowest up, and the line of what was held."""

    rectangles: tuple[Rectangle, ...]
    line: str


def draw(use: UseOverTime) -> Chart:
    """Return the marks of a workload's use."""
    scale = (HEIGHT - _HEAD) / max(1, use.most_mgpu)
    marks: list[Rectangle] = []
    line: list[str] = []
    for step in use.steps:
        x, width = step.first * _COLUMN, step.columns * _COLUMN
        top = HEIGHT - step.held_mgpu * scale
        line += [f"{x},{top:.1f}", f"{x + width},{top:.1f}"]
        if not step.held_mgpu:
            marks.append(Rectangle(what="none", x=x, y=0, width=width, height=HEIGHT))
            continue
        y = float(HEIGHT)
        for what, amount in (
            ("computing", step.computing_mgpu),
            ("idle", step.idle_mgpu),
            ("unknown", step.unknown_mgpu),
        ):
            if amount:
                y -= amount * scale
                marks.append(
                    Rectangle(
                        what=what, x=x, y=round(y, 1), width=width, height=round(amount * scale, 1)
                    )
                )
    return Chart(rectangles=tuple(marks), line=" ".join(line))
