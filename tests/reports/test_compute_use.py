"""CPU and memory used: from samples to rows of the ledger to hours of the report."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reports import numbers
from reports.consumption import ReportRequest, make_report
from reports.csv_export import report_csv
from reports.periods import Bucket, make_span
from scheduler import models
from scheduler.queries.visibility import WHOLE_CLUSTER
from scheduler.telemetry.base import ReplicaSample
from scheduler.tick import use
from tests.reports.ledgers import Ledger, utc

BEGIN = utc(2026, 11, 2, 9, 50)


@pytest.fixture
def replica(db):
    use._marks.clear()
    ledger = Ledger().department("dev").project("a", of="dev")
    return ledger.hold("a", "0.50", BEGIN, None, cpu_milli=4000, memory_mib=4096).replica


def run(replica, *, seconds, cores, memory_mib=2048, since=BEGIN, every=2):
    """Let a replica use ``cores`` and be sampled every two seconds."""
    for second in range(0, seconds + 1, every):
        sample = ReplicaSample(
            replica_id=replica.pk,
            attempt=1,
            sampled_at=since + timedelta(seconds=second),
            cpu_usec=second * cores * 1_000_000,
            memory_mib=memory_mib,
        )
        use.record(samples=[(replica, sample)])


def report(bucket=Bucket.WHOLE):
    now = utc(2026, 11, 2, 12)
    span = make_span(from_at=utc(2026, 11, 2, 9), to_at=now, zone="UTC", now=now)
    request = ReportRequest(span=span, bucket=bucket)
    return make_report(visible=WHOLE_CLUSTER, request=request, now=now)


def test_twenty_minutes_of_three_cores_are_one_core_hour(replica):
    run(replica, seconds=1200, cores=3)

    figures = report().total.figures

    assert numbers.core_hours(figures.cpu_used) == "1.000"
    assert numbers.gib_hours(figures.memory_used) == "0.667"


def test_one_row_an_hour_grows(replica):
    run(replica, seconds=1200, cores=3)

    assert models.ComputeUse.objects.count() == 2
    by_hour = [numbers.core_hours(row.figures.cpu_used) for row in report(Bucket.HOUR).rows]
    assert by_hour == ["0.500", "0.500", "0.000"]


def test_a_long_pause_between_samples_is_not_measured(replica):
    run(replica, seconds=60, cores=3)
    run(replica, seconds=60, cores=3, since=BEGIN + timedelta(minutes=10))

    # Then only the two minutes count, at three cores
    assert numbers.core_hours(report().total.figures.cpu_used) == "0.100"


def test_what_was_not_measured_is_empty_and_not_zero(replica):
    line = b"".join(report_csv(report=report())).decode().splitlines()[1].split(",")
    header = b"".join(report_csv(report=report())).decode().splitlines()[0].split(",")

    assert line[header.index("cpu_usage_core_hours")] == ""
    assert line[header.index("cpu_allocation_core_hours")] == "8.667"
