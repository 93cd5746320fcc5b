"""The ledger that ticks write: sound after preemption, reclaim, failure and quota changes, and exact."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.core.usage import HOUR_US, sum_figures
from scheduler.core.vocabulary import Kind
from scheduler.operations import quotas, usage_rollup, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.queries import cluster_map, overview, usage
from scheduler.queries.usage_check import check_ledger
from scheduler.queries.visibility import SYSTEM as ALL
from scheduler.tick import ledger
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


def findings(ticker):
    found = check_ledger(now_us=to_us(ticker.clock()))
    return [text for problems in found.values() for text in problems]


def figures(ticker, since):
    """Figures by the name of the project, from an instant until now."""
    now_us = to_us(ticker.clock())
    found = usage.read_queue_usage(visible=ALL, cuts=[to_us(since), now_us], now_us=now_us)
    names = dict(models.Project.objects.values_list("id", "name"))
    return {names[key.project_id]: rows[0] for key, rows in found.queues.items()}


def test_an_hour_of_borrowing_is_counted_to_the_microsecond(ticker):
    # Given a service of 0.12 that is guaranteed 0.25 and five trainings of 0.09 guaranteed 0.09
    place = places.article()
    place.submit("answers", of="prod-inference", gpu="0.12", kind=Kind.INFERENCE, command=["fake"])
    for number in range(5):
        place.submit(f"train-{number}", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    since = ticker.clock()
    # When an hour passes
    ticker.tick(seconds=3600)
    # Then each held its share for it, and unit-a lived on others with four of its five
    hour_us = to_us(ticker.clock()) - to_us(since)
    found = figures(ticker, since)
    assert found["prod-inference"].allocated == 120 * hour_us
    assert found["prod-inference"].unused == 130 * hour_us
    assert found["unit-a"].allocated == 450 * hour_us
    assert found["unit-a"].over_quota == 360 * hour_us
    assert findings(ticker) == []


def test_a_quota_changed_on_the_way_counts_from_its_moment(ticker):
    place = places.article()
    place.submit("train", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    since = ticker.clock()
    ticker.tick(seconds=1800)
    changed = ticker.clock()
    quotas.set_project_quota(
        project_id=place.projects["unit-a"].pk,
        pool_id=place.pool.pk,
        values=QueueQuota(quota_mgpu=40),
        authority=SYSTEM,
        now=changed,
    )
    ticker.tick(seconds=1800)

    row = figures(ticker, since)["unit-a"]

    before_us = to_us(changed) - to_us(since)
    after_us = to_us(ticker.clock()) - to_us(changed)
    assert row.deserved == 90 * before_us + 40 * after_us
    assert row.over_quota == 50 * after_us
    assert findings(ticker) == []


def test_the_ledger_is_sound_after_reclaims_stops_and_ends(ticker):
    place = places.article()
    for number in range(9):
        place.submit(f"train-{number}", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    for number in range(3):
        place.submit(f"back-{number}", of="unit-b", gpu="0.09", command=["fake"])
        place.submit(f"more-{number}", of="unit-c", gpu="0.09", command=["fake"])
        ticker.settle(seconds=17)
        workloads.stop_workload(
            workload_id=place.workloads[f"train-{number}"].pk,
            authority=SYSTEM,
            now=ticker.clock(),
        )
        ticker.settle(seconds=11)

    assert models.AllocationInterval.objects.filter(to_us__isnull=False).exists()
    assert findings(ticker) == []


def test_what_is_rolled_up_under_ticks_is_what_the_intervals_say(ticker):
    place = places.article()
    for number in range(7):
        place.submit(f"train-{number}", of="unit-a", gpu="0.09", command=["fake"])
    for _ in range(8):
        ticker.tick(seconds=700)
        usage_rollup.roll_up(now=ticker.clock() - timedelta(seconds=5))

    now_us = to_us(ticker.clock())
    assert list(usage_rollup.differences(now_us=now_us)) == []
    begin = to_us(places.START)
    cuts = [begin, begin + HOUR_US, now_us]
    rolled = usage.read_queue_usage(visible=ALL, cuts=cuts, now_us=now_us)
    raw = usage.read_raw_usage(visible=ALL, cuts=cuts, now_us=now_us)
    assert rolled.queues == raw.queues
    assert sum_figures(rows=[row for rows in raw.queues.values() for row in rows]).allocated > 0


def test_overview_and_ledger_tell_the_same_at_one_instant(ticker):
    # Given the article's card in use, with a unit that borrows
    place = places.article()
    place.submit("answers", of="prod-inference", gpu="0.12", kind=Kind.INFERENCE, command=["fake"])
    for number in range(4):
        place.submit(f"train-{number}", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    now = ticker.clock()
    told = overview.read_overview(visible=ALL, now=now)
    # When one second is read from the ledger
    begin = to_us(now)
    second = usage.read_queue_usage(
        visible=ALL, cuts=[begin, begin + 1_000_000], now_us=begin + 1_000_000
    )
    total = sum_figures(rows=[rows[0] for rows in second.queues.values()])
    # Then its integrals are the tiles, a second long, and so are map and tree
    on_map = [part for parts in told.map.slices.values() for part in parts]
    assert sum(part.mgpu for part in on_map) == told.tiles.held_mgpu
    projects = [row for row in told.tree.rows if not row.is_department]
    departments = [row for row in told.tree.rows if row.is_department]
    for rows in (projects, departments):
        assert sum(row.held_mgpu for row in rows) == told.tiles.held_mgpu
        assert sum(row.idle_mgpu for row in rows) == told.tiles.idle_mgpu
    assert total.allocated == told.tiles.held_mgpu * 1_000_000 == 480 * 1_000_000
    assert total.over_quota == told.tiles.borrowed_mgpu * 1_000_000 == 270 * 1_000_000
    assert total.unused == told.tree.unused_guarantee_mgpu * 1_000_000


def test_idle_is_the_same_on_tile_map_tree_and_in_the_ledger(ticker):
    # Given three idle services of 0.42 and one training of 0.09 that computes
    place = places.article()
    service = {"kind": Kind.INFERENCE, "command": ["fake"]}
    place.submit("chat", of="dev-chat", gpu="0.20", **service)
    place.submit("embed", of="dev-embed", gpu="0.10", **service)
    place.submit("answers", of="prod-inference", gpu="0.12", **service)
    place.submit("train", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    begin = ticker.clock()
    samples = [
        (replica, replica.workload.name != "train")
        for replica in models.Replica.objects.select_related("workload").order_by("id")
    ]
    until = begin + timedelta(seconds=1)
    for replica, idle in samples:
        models.Replica.objects.filter(pk=replica.pk).update(idle=idle, sampled_at=until)
        models.ActivityInterval.objects.filter(replica=replica).delete()
        ledger.record_activity(
            replica=replica,
            project_id=replica.workload.project_id,
            pool_id=replica.workload.pool_id,
            idle=idle,
            since=begin,
            until=until,
        )
    # When Overview and ledger are asked about that second
    told = overview.read_overview(visible=ALL, now=until)
    cuts = [to_us(begin), to_us(until)]
    found = usage.read_queue_usage(visible=ALL, cuts=cuts, now_us=to_us(until))
    total = sum_figures(rows=[rows[0] for rows in found.queues.values()])
    on_map = [part for parts in told.map.slices.values() for part in parts]
    # Then all say 0.51 allocated and 0.42 of it idle
    assert (told.tiles.held_mgpu, told.tiles.idle_mgpu) == (510, 420)
    assert sum(part.mgpu for part in on_map if part.flags & cluster_map.IDLE) == 420
    rows = [row for row in told.tree.rows if not row.is_department]
    assert sum(row.idle_mgpu for row in rows) == 420
    assert (total.allocated, total.idle) == (510_000_000, 420_000_000)
