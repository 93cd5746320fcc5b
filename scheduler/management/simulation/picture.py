"""The two days as a Plotly figure: JSON, or one HTML file that carries the drawing code with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from scheduler.management.simulation.day import STEP_S, Day

#: The vendored drawing code, which is written into the file: nothing is fetched when it is opened.
PLOTLY = next(
    iter(
        sorted((Path(__file__).resolve().parents[3] / "static" / "vendor").glob("plotly*/*.min.js"))
    ),
    None,
)
_COLORS = {"inference": "#2a6fdb", "training": "#2f9e6e", "idle": "#d9dde3"}


def make_figure(days: Sequence[Day]) -> dict[str, object]:
    """Return a Plotly figure: a row a day, with what inference, training and nobody held."""
    traces: list[dict[str, object]] = []
    layout: dict[str, object] = {
        "title": {"text": "GPUs held over a day"},
        "height": 320 * len(days),
        "margin": {"l": 60, "r": 20, "t": 60, "b": 50},
        "legend": {"orientation": "h", "y": 1.08, "x": 1, "xanchor": "right"},
        "annotations": [],
    }
    part = 1 / len(days)
    for number, day in enumerate(days):
        top = 1 - number * part
        suffix = "" if number == 0 else str(number + 1)
        layout[f"xaxis{suffix}"] = {
            "anchor": f"y{suffix}",
            "range": [0, 24],
            "dtick": 3,
            "ticksuffix": ":00",
        }
        layout[f"yaxis{suffix}"] = {
            "anchor": f"x{suffix}",
            "domain": [top - part * 0.8, top - part * 0.08],
            "range": [0, day.capacity_gpu],
            "title": {"text": f"GPUs, {day.name}"},
        }
        traces += _traces(day, suffix=suffix, legend=number == 0)
    return {"data": traces, "layout": layout}


def write_picture(days: Sequence[Day], *, out: Path) -> None:
    """Write the figure to ``out``: HTML where it is called so, else JSON."""
    figure = json.dumps(make_figure(days))
    if out.suffix != ".html":
        out.write_text(figure + "\n", encoding="utf-8")
        return
    code = "" if PLOTLY is None else PLOTLY.read_text(encoding="utf-8")
    out.write_text(_PAGE.format(code=code, figure=figure), encoding="utf-8")


def _traces(day: Day, *, suffix: str, legend: bool) -> list[dict[str, object]]:
    hours = [step * STEP_S / 3600 for step in range(len(day.inference_gpu))]
    idle = [
        day.capacity_gpu - inference - training
        for inference, training in zip(day.inference_gpu, day.training_gpu, strict=True)
    ]
    held = {"inference": day.inference_gpu, "training": day.training_gpu, "idle": idle}
    axes: dict[str, object] = {"x": hours, "xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    areas: list[dict[str, object]] = [
        {
            **axes,
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "y": values,
            "stackgroup": f"day{suffix}",
            "legendgroup": name,
            "showlegend": legend,
            "line": {"width": 0.5, "shape": "hv", "color": _COLORS[name]},
        }
        for name, values in held.items()
    ]
    wanted: dict[str, object] = {
        **axes,
        "type": "scatter",
        "mode": "lines",
        "name": "inference wanted",
        "y": day.wanted_gpu,
        "legendgroup": "wanted",
        "showlegend": legend,
        "line": {"width": 2, "dash": "dot", "shape": "hv", "color": "#1b2330"},
    }
    return [*areas, wanted]


_PAGE = """<!doctype html>
<!-- Two days of one pool, drawn from figures in this file. -->
<html lang="en">
<head><meta charset="utf-8"><title>GPUs held over a day</title></head>
<body>
<div id="day"></div>
<script>{code}</script>
<script>
const figure = {figure};
Plotly.newPlot("day", figure.data, figure.layout, {{ responsive: true, displaylogo: false }});
</script>
</body>
</html>
"""
