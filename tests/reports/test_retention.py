"""Old samples thinned: fewer rows, and every figure what it was, to the last digit."""

from __future__ import annotations

import itertools
import random
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from reports.consumption import ReportRequest, Segment, make_report
from reports.periods import Bucket, make_span
from scheduler import models
from scheduler.core.instants import to_us
from scheduler.operations import retention, usage_rollup
from scheduler.queries.usage_check import check_ledger
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.reports.ledgers import Ledger, utc

BEGIN, NOW = utc(2026, 11, 1), utc(2026, 11, 6)


def flickering():
    """Two replicas whose samples change their mind all the time for a day, and a price on the way."""
    rng = random.Random(3)
    made = Ledger(price="74").department("dev", quota="1").project("a", of="dev", quota="0.30")
    made.price("80", since=utc(2026, 11, 1, 5, 7, 11))
    for _ in range(2):
        held = made.hold("a", "0.25", BEGIN, BEGIN + timedelta(hours=20))
        at = BEGIN + timedelta(seconds=3)
        while at < BEGIN + timedelta(hours=19):
            until = at + timedelta(microseconds=rng.randrange(1, 200_000_000))
            if rng.random() < 0.9:
                made.seen(held, at, until, idle=rng.random() < 0.5)
            at = until
    return made


def figures():
    """All rows by hour in a zone whose days begin at a quarter past."""
    found = []
    for zone in ("UTC", "Asia/Kathmandu"):
        span = make_span(from_at=BEGIN, to_at=BEGIN + timedelta(days=2), zone=zone, now=NOW)
        request = ReportRequest(span=span, segment=Segment.PROJECT, bucket=Bucket.HOUR)
        report = make_report(visible=WHOLE_CLUSTER, request=request, now=NOW)
        found += [(row.slot.from_us, row.figures) for row in report.rows]
    return found


def test_b45_figures_are_the_same_and_rows_are_bounded(db):
    # Given a day of flickering samples
    flickering()
    before, rows = figures(), models.ActivityInterval.objects.count()
    # When they are old, and thinned
    fewer = retention.thin(now=NOW, after_days=2, within_s=600)
    # Then at most two stretches are left in each quarter (three where a price begins), and nothing moved
    left = models.ActivityInterval.objects.count()
    assert left == rows - fewer
    assert left <= 2 * 20 * 4 * 2 + 4 < rows
    assert figures() == before
    assert not any(check_ledger(now_us=to_us(NOW)).values())
    # And doing it again changes nothing, nor does rolling up afterwards
    assert retention.thin(now=NOW, after_days=2, within_s=600) == 0
    usage_rollup.catch_up(now=NOW, within_s=600)
    assert figures() == before


def test_what_is_young_or_still_grows_stays(db):
    made = flickering()
    rows = models.ActivityInterval.objects.count()
    assert retention.thin(now=BEGIN + timedelta(days=2), after_days=2, within_s=60) == 0
    held = made.hold("a", "0.10", BEGIN, None)
    grows = made.seen(held, BEGIN, BEGIN + timedelta(minutes=1), idle=True)
    models.ActivityInterval.objects.filter(pk=grows.pk).update(open=True)
    retention.thin(now=NOW, after_days=2, within_s=600)
    assert models.ActivityInterval.objects.filter(pk=grows.pk, open=True).exists()
    assert models.ActivityInterval.objects.count() < rows


def test_why_ended_work_waited_is_dropped_when_it_is_old(db):
    made = flickering()
    work = next(iter(made.workloads.values()))
    project = made.projects["a"]
    for at in (utc(2026, 1, 1), utc(2026, 11, 1)):
        row = models.Decision.objects.create(at=at, verb="deny", workload=work, project=project)
        models.WorkloadEvent.objects.create(workload=work, at=at, code="waits", decision=row)
    models.Workload.objects.filter(pk=work.pk).update(ended_at=utc(2026, 11, 2))
    assert retention.drop_reasons(now=NOW, after_days=90, within_s=60) == 1
    assert models.Decision.objects.get().at == utc(2026, 11, 1)
    assert models.WorkloadEvent.objects.count() == 1


@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.booleans()), max_size=20),
    st.lists(st.integers(5, 60), min_size=2, max_size=5, unique=True),
)
def test_between_two_cuts_sums_are_the_same_and_nothing_overlaps(steps, cuts):
    cuts = sorted(cuts)
    parts, at = [], 0
    for length, idle, known in steps:
        if known and length:
            parts.append((at, at + length, idle))
        at += length
    after = retention.thinned(parts=parts, cuts=cuts)

    def measured(found, begin, end, idle):
        return sum(max(0, min(b, end) - max(a, begin)) for a, b, i in found if i is idle)

    edges = [-1, *cuts, 1000]
    for begin, end in itertools.pairwise(edges):
        for idle in (True, False):
            assert measured(after, begin, end, idle) == measured(parts, begin, end, idle)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(after))
