"""Keeps a range for each wait that lasts, and the start that came: so it is known how good ranges are."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler import models
from scheduler.core.instants import from_us
from scheduler.core.vocabulary import Phase
from scheduler.queries import estimates, snapshots

#: A wait that is over sooner is not worth a range.
WAITED = timedelta(seconds=20)
#: Nothing starts meanwhile: one range at a time, from so many instants at most.
MOST_AT_ONCE = 1
MOST_ENDS = 60


def keep(*, now: datetime) -> int:
    """Note starts that have come, and give ranges to a few waits that have none. Return how many of both."""
    return _note_starts() + _give_ranges(now)


def _note_starts() -> int:
    count = 0
    rows = models.StartEstimate.objects.filter(started_at=None)
    over = rows.exclude(workload__phase=Phase.PENDING).order_by("pk")[:100]
    for row in over:
        started = (
            models.Replica.objects.filter(workload=row.workload_id, booked_at__gte=row.waits_since)
            .order_by("booked_at")
            .values_list("booked_at", flat=True)
            .first()
        )
        if started is not None:
            count += models.StartEstimate.objects.filter(pk=row.pk).update(started_at=started)
        else:
            row.delete()  # it was stopped while it waited: there is no start to judge
    return count


def _give_ranges(now: datetime) -> int:
    waiting = models.Workload.objects.filter(
        phase=Phase.PENDING,
        stop_requested=False,
        deleted_at=None,
        phase_since__lt=now - WAITED,
        pool__scratch=False,
    ).order_by("-phase_since")[:100]
    known = set(
        models.StartEstimate.objects.filter(workload__in=[each.pk for each in waiting]).values_list(
            "workload_id", "waits_since"
        )
    )
    due = [each for each in waiting if (each.pk, each.phase_since) not in known][:MOST_AT_ONCE]
    loaded: dict[int, snapshots.Loaded] = {}
    made: list[models.StartEstimate] = []
    for workload in due:
        if workload.pool_id not in loaded:
            loaded[workload.pool_id] = snapshots.load_pool(pool_id=workload.pool_id)
        pool = loaded[workload.pool_id]
        if workload.pk not in pool.workloads:
            continue
        found, _why_not = estimates.estimate_of(pool, workload.pk, now, most_ends=MOST_ENDS)
        made.append(
            models.StartEstimate(
                workload=workload,
                waits_since=workload.phase_since,
                made_at=now,
                soonest=None if found is None else from_us(found.soonest_us),
                latest=None if found is None else from_us(found.latest_us),
            )
        )
    # A tick that was taken for dead may have given a range meanwhile: the first stands.
    models.StartEstimate.objects.bulk_create(made, ignore_conflicts=True)
    return len(due)
