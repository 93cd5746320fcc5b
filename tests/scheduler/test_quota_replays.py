"""A draft replayed over what was submitted: both runs, what they assume, and who may see what of it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from scheduler import models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Level
from scheduler.operations import quota_replays, quotas
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import QuotaRefused, StateRefused
from scheduler.queries.quota_replays import find_replay, list_replays
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from tests.scheduler import places

pytestmark = pytest.mark.django_db


@pytest.fixture
def place(ticker):
    """Two hours of work: a and c may hold half of the card each; a hands in twice what it may hold."""
    place = (
        places.card()
        .department("x", quota="0.50")
        .department("y", quota="0.50")
        .project("a", of="x", quota="0.50", limit="0.50")
        .project("c", of="y", quota="0.50", limit="0.50")
    )
    models.GpuPrice.objects.create(gpu_model="", price_per_hour=10, from_at=places.START)
    for name in ("a-1", "a-2"):
        place.submit(name, of="a", gpu="0.50", command=["fake", "after=3600"], at=ticker.clock())
    ticker.tick()
    ticker.settle(ticks=5, seconds=1800)
    return place


def edits(place, **values):
    key = (Level.PROJECT, place.projects["a"].pk)
    quota = QueueQuota(**{"quota_mgpu": 500, "limit_mgpu": 1000} | values)
    return [quotas.QuotaEdit(level=key[0], id=key[1], values=quota)]


def ask(place, ticker, **values):
    return quota_replays.ask_replay(
        pool_id=place.pool.pk,
        days=7,
        edits=edits(place, **values),
        authority=SYSTEM,
        now=ticker.clock(),
    )


def played(place, ticker, visible=WHOLE_CLUSTER, **values):
    made = ask(place, ticker, **values)
    quota_replays.carry_out(replay_id=made.pk, now=ticker.clock())
    return find_replay(visible=visible, username="system", replay_id=made.pk, now=ticker.clock())


def test_a_larger_limit_would_have_let_both_run_at_once(place, ticker):
    # Given the second waited for the first, as each held what project a may hold
    held = models.AllocationInterval.objects.order_by("from_us")
    assert held[1].from_us >= held[0].to_us
    # When a limit of 1.00 is replayed over these days
    found = played(place, ticker)
    # Then the wait of the second is gone, and what is held and costs is the same
    row = next(each for each in found.rows if each.name == "a")
    assert (row.before.submitted, row.after.submitted) == (2, 2)
    assert row.before.wait_mean_s > 1000
    assert row.after.wait_mean_s <= 300
    assert (row.before.never_started, row.after.never_started) == (0, 0)
    assert row.before.held_h == row.after.held_h > Decimal("0.9")
    assert row.after.cost == row.after.held_h * 10
    assert found.free_before_h == found.free_after_h
    # And its guarantee lay idle longer
    assert row.after.unused_h >= row.before.unused_h
    assert not found.open
    assert found.status == "done"


def test_a_guarantee_that_nobody_used_stands_there_though_no_work_came(place, ticker):
    # Given project c, for which nothing was submitted, and a draft that guarantees it a quarter more
    project = place.projects["c"]
    row = models.ProjectQuota.objects.get(project=project)
    more = quotas.QuotaEdit(
        level=Level.PROJECT, id=project.pk, values=QueueQuota(quota_mgpu=row.quota_mgpu + 250)
    )
    made = quota_replays.ask_replay(
        pool_id=place.pool.pk, days=7, edits=[more], authority=SYSTEM, now=ticker.clock()
    )
    quota_replays.carry_out(replay_id=made.pk, now=ticker.clock())
    found = find_replay(
        visible=WHOLE_CLUSTER, username="system", replay_id=made.pk, now=ticker.clock()
    )
    # Then its row says what of the guarantee lies unused: a quarter of 7 days more
    unused = {each.name: each.after.unused_h - each.before.unused_h for each in found.rows}
    assert unused["c"] == Decimal("0.25") * 7 * 24
    assert next(each for each in found.rows if each.name == "c").after.submitted == 0


def test_the_waits_of_a_department_are_those_of_all_its_work(place, ticker):
    # Given a second project of department x, whose work borrows and therefore waits longer
    place.project("b", of="x", quota="0")
    place.submit("b-1", of="b", gpu="0.50", command=["fake", "after=60"], at=ticker.clock())
    ticker.settle(ticks=2, seconds=300)
    # When a draft is replayed
    found = {row.name: row.before for row in played(place, ticker).rows}
    # Then what 95 of 100 of the department wait is the longest of the three, the mean that of all
    waits = found["a"].wait_mean_s * 2 + found["b"].wait_mean_s
    assert (found["a"].submitted, found["b"].submitted) == (2, 1)
    assert found["x"].wait_p95_s == max(found["a"].wait_p95_s, found["b"].wait_p95_s) > 1000
    assert abs(found["x"].wait_mean_s * 3 - waits) <= 3


def test_the_same_quotas_give_the_same_figures_and_nothing_of_the_cluster_changes(place, ticker):
    before = list(models.ProjectQuota.objects.order_by("pk").values_list("quota_mgpu", "version"))
    found = played(place, ticker, limit_mgpu=500, weight_milli=3000)
    assert all(each.before == each.after for each in found.rows)
    after = list(models.ProjectQuota.objects.order_by("pk").values_list("quota_mgpu", "version"))
    assert before == after


def test_a_draft_that_changes_nothing_and_a_second_one_at_once_are_refused(place, ticker):
    with pytest.raises(QuotaRefused, match="changes nothing"):
        ask(place, ticker, limit_mgpu=500)
    ask(place, ticker)
    with pytest.raises(StateRefused, match="at work"):
        ask(place, ticker)
    # One that stands still was cut short and is in nobody's way
    models.QuotaReplay.objects.update(touched_at=ticker.clock() - timedelta(minutes=6))
    ask(place, ticker)


def test_a_failure_is_kept_and_a_replay_is_carried_out_once(place, ticker, monkeypatch):
    made = ask(place, ticker)
    with monkeypatch.context() as patch:
        patch.setattr(quota_replays.past_work, "read_past", lambda **_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            quota_replays.carry_out(replay_id=made.pk, now=ticker.clock())
    quota_replays.carry_out(replay_id=made.pk, now=ticker.clock())
    made.refresh_from_db()
    assert (made.status, made.result) == ("failed", {})


def test_a_reader_sees_its_own_units_of_its_own_replay(place, ticker):
    own = Visibility(department_ids=frozenset({place.departments["x"].pk}))
    found = played(place, ticker, visible=own)
    assert {row.name for row in found.rows} == {"x", "a"}
    assert found.submitted is None
    assert found.free_before_h is None
    asked = {"visible": own, "pool_id": place.pool.pk, "now": ticker.clock()}
    assert len(list_replays(username="system", **asked)) == 1
    assert list_replays(username="someone", **asked) == ()


def test_what_is_too_much_is_left_out_and_said(place, ticker, monkeypatch):
    monkeypatch.setattr(quota_replays.past_work, "MOST_WORK", 1)
    found = played(place, ticker)
    assert (found.submitted, found.left_out) == (1, 1)
