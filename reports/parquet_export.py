"""A report as Parquet, where pyarrow is installed."""

from __future__ import annotations

import importlib
import importlib.util
import io

from django.utils.translation import gettext as _

from reports.columns import COLUMNS
from reports.consumption import Report
from reports.refused import ReportRefused

EXTRA = "pyarrow"


def is_possible() -> bool:
    """Test whether the package that writes Parquet is installed."""
    return importlib.util.find_spec(EXTRA) is not None


def report_parquet(*, report: Report) -> bytes:
    """Return a report's rows as a Parquet file: text columns as text, others as decimal numbers.

    Raises:
        ReportRefused: pyarrow is not installed.
    """
    if not is_possible():
        raise ReportRefused(
            _("Parquet needs the package {package}. Install it with: {command}").format(
                package=EXTRA, command=f"pip install {EXTRA}"
            )
        )
    arrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    decimal = importlib.import_module("decimal").Decimal
    columns = {}
    for column in COLUMNS:
        values = [column.value(report, row) for row in report.rows]
        if column.text:
            columns[column.name] = arrow.array(values, type=arrow.string())
        else:
            numbers = [decimal(value) if value else None for value in values]
            columns[column.name] = arrow.array(numbers, type=arrow.decimal128(38, 3))
    target = io.BytesIO()
    parquet.write_table(arrow.table(columns), target)
    return target.getvalue()
