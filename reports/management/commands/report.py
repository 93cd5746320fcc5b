"""``manage.py report``: the consumption report on the command line, with the figures of the page."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from reports import csv_export, intervals, numbers
from reports.asked import Asked, Preset, parse_asked
from reports.consumption import Report, Row, Segment, make_report
from reports.json_export import report_json
from reports.parquet_export import report_parquet
from reports.periods import Bucket
from reports.refused import ReportRefused
from scheduler.core.vocabulary import Kind
from scheduler.queries.usage_names import read_cluster_facts
from scheduler.queries.visibility import WHOLE_CLUSTER

FORMATS = ("table", "csv", "json", "parquet", "intervals")


class Command(BaseCommand):
    """Prints or writes a report of the whole cluster; whoever runs commands here sees all of it."""

    help = "Who held, was guaranteed, borrowed and left idle how much."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--period", choices=[each.value for each in Preset], default="", help="default: 7d"
        )
        parser.add_argument("--from", default="", help="such as 2026-11-01 or 2026-11-01T10:30")
        parser.add_argument("--to", default="", help="the first instant that is not counted")
        parser.add_argument("--zone", default="", help="such as Asia/Taipei")
        parser.add_argument(
            "--by", choices=[each.value for each in Segment], default=Segment.PROJECT.value
        )
        parser.add_argument(
            "--step", choices=[each.value for each in Bucket], default=Bucket.WHOLE.value
        )
        for name in ("department", "project", "pool", "workload"):
            parser.add_argument(f"--{name}", action="append", default=[], metavar="ID")
        parser.add_argument("--user", action="append", default=[])
        parser.add_argument(
            "--kind", action="append", default=[], choices=[each.value for each in Kind]
        )
        parser.add_argument("--format", choices=FORMATS, default="table")
        parser.add_argument("--out", default="", help="file to write; default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        words = {
            name: value if isinstance(value, list) else [str(value)]
            for name, value in options.items()
        }
        try:
            asked = parse_asked(words=words, zone=read_cluster_facts().time_zone, now=now)
            self._answer(asked, options["format"], options["out"])
        except ReportRefused as refused:
            raise CommandError(str(refused)) from refused

    def _answer(self, asked: Asked, form: str, out: str) -> None:
        now = timezone.now()
        if form == "intervals":
            _write(intervals.export(visible=WHOLE_CLUSTER, request=asked.request, now=now), out)
            return
        report = make_report(visible=WHOLE_CLUSTER, request=asked.request, now=now)
        if form == "csv":
            _write(csv_export.report_csv(report=report), out)
        elif form == "json":
            text = json.dumps(report_json(report=report), ensure_ascii=False, indent=1)
            _write([text.encode(), b"\n"], out)
        elif form == "parquet":
            _write([report_parquet(report=report)], out)
        else:
            _write(["\n".join([*_table(report), ""]).encode()], out)


def _write(parts: Iterable[bytes], out: str) -> None:
    if not out:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    with open(out, "wb") as target:
        for part in parts:
            target.write(part)


def _table(report: Report) -> Iterable[str]:
    span = report.request.span
    yield (
        f"{span.from_at:%Y-%m-%d %H:%M} to {span.to_at:%Y-%m-%d %H:%M} {span.zone}"
        f"{' (cut at now)' if span.cut else ''}{'  ' + report.filters if report.filters else ''}"
    )
    heads = ("", "", "allocation", "deserved", "over quota", "unused", "idle", "unknown", "cost")
    lines = [heads, *(_line(report, row) for row in report.rows), _line(report, report.total)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    for line in lines:
        texts = [line[0].ljust(widths[0]), line[1].ljust(widths[1])]
        texts += [text.rjust(width) for text, width in zip(line[2:], widths[2:], strict=True)]
        yield "  ".join(texts).rstrip()


def _line(report: Report, row: Row) -> tuple[str, ...]:
    figures = row.figures
    of_guarantee = [
        numbers.gpu_hours(value) if row.guaranteed else "-"
        for value in (figures.deserved, figures.over_quota, figures.unused)
    ]
    return (
        row.unit.name,
        row.slot.label,
        numbers.gpu_hours(figures.allocated),
        *of_guarantee,
        numbers.gpu_hours(figures.idle),
        numbers.gpu_hours(figures.unknown),
        f"{report.cluster.currency} {numbers.money(figures.cost)}",
    )
