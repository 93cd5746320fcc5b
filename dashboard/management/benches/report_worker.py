"""One act of ``bench report`` in a process of its own: fill, roll_up, report or csv. Prints JSON."""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.consumption import ReportRequest

BEGIN = datetime(2025, 12, 1, tzinfo=UTC)
END = datetime(2026, 12, 1, tzinfo=UTC)
#: Not a full hour after the end: the last minutes are read from the intervals.
NOW = datetime(2026, 12, 1, 0, 30, tzinfo=UTC)
ZONE = "Asia/Taipei"
TRIES = 3


def main() -> None:
    """Carry out the act that is named and print its figures."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    logging.disable(logging.WARNING)
    print(json.dumps(ACTS[sys.argv[1]]()))  # noqa: T201


def fill() -> dict[str, float]:
    """Make the database and the year in it."""
    from django.core.management import call_command

    from dashboard.management.benches.made_up_year import make_year

    call_command("migrate", interactive=False, verbosity=0)
    return make_year(begin=BEGIN, end=END)


def roll_up() -> dict[str, float]:
    """Roll all closed hours up."""
    from scheduler.operations import usage_rollup

    began, hours = time.perf_counter(), 0
    while more := usage_rollup.roll_up(now=NOW, most_days=31):
        hours += more
    return {"seconds": time.perf_counter() - began, "hours": hours}


def report() -> dict[str, float]:
    """Make each report three times; return the best seconds."""
    from dataclasses import replace

    from reports.consumption import ReportRequest
    from reports.periods import Bucket, Span

    year = Span(from_us=_us(2025, 12, 1), to_us=_us(2026, 12, 1), zone=ZONE)
    month = Span(from_us=_us(2026, 7, 1), to_us=_us(2026, 8, 1), zone=ZONE)
    asked = {
        "year_by_month": ReportRequest(span=year, bucket=Bucket.MONTH),
        "month_by_day": ReportRequest(span=month, bucket=Bucket.DAY),
        "month_by_day_utc": ReportRequest(
            span=replace(
                month, zone="UTC", from_us=_us(2026, 7, 1, "UTC"), to_us=_us(2026, 8, 1, "UTC")
            ),
            bucket=Bucket.DAY,
        ),
    }
    found: dict[str, float] = {}
    for name, request in asked.items():
        for at, value in _best(request).items():
            found[name + at] = value
    return found


def _best(request: ReportRequest) -> dict[str, float]:
    from reports.consumption import make_report
    from scheduler.queries.visibility import WHOLE_CLUSTER

    walls, cpus, rows = [], [], 0
    for _ in range(TRIES):
        wall, cpu = time.perf_counter(), time.process_time() + _backend_cpu_s()
        rows = len(make_report(visible=WHOLE_CLUSTER, request=request, now=NOW).rows)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() + _backend_cpu_s() - cpu)
    return {"": min(walls), "_cpu": min(cpus), "_rows": rows}


def _backend_cpu_s() -> float:
    """Return the CPU seconds of the server's process that works for this one; 0 where there is none.

    It helps itself to no further processes, so that none of its work is missed.
    """
    from django.db import connection

    if connection.vendor != "postgresql":
        return 0.0
    with connection.cursor() as cursor:
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def csv() -> dict[str, float]:
    """Write every interval of the year as CSV to nowhere; return the peak of memory."""
    from reports import intervals
    from reports.consumption import ReportRequest
    from reports.periods import Span
    from scheduler.queries.visibility import WHOLE_CLUSTER

    span = Span(from_us=_us(2025, 12, 1), to_us=_us(2026, 12, 1), zone=ZONE)
    began, lines, size = time.perf_counter(), -1, 0
    for part in intervals.export(visible=WHOLE_CLUSTER, request=ReportRequest(span=span), now=NOW):
        lines += part.count(b"\r\n")
        size += len(part)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": time.perf_counter() - began,
        "lines": lines,
        "mib": size / 2**20,
        "peak_mib": peak_kib / 1024,
    }


def _us(year: int, month: int, day: int, zone: str = ZONE) -> int:
    from reports.periods import parse_instant
    from scheduler.core.instants import to_us

    return to_us(parse_instant(text=f"{year}-{month:02}-{day:02}", zone=zone))


ACTS: dict[str, Callable[[], dict[str, float]]] = {
    "fill": fill,
    "roll_up": roll_up,
    "report": report,
    "csv": csv,
}

if __name__ == "__main__":
    main()
