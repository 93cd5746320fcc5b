"""What is kept between ticks equals what is read anew, after whatever people and ticks do."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from django.db.models import F

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Kind
from scheduler.operations import nodes, quotas, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.queries import snapshots
from scheduler.tick import run
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


def assert_kept_equals_fresh(keep):
    _, kept = snapshots.load_pools(keep=keep)
    _, fresh = snapshots.load_pools()
    assert [each.snapshot for each in kept] == [each.snapshot for each in fresh]
    assert [each.policy for each in kept] == [each.policy for each in fresh]
    for one, other in zip(kept, fresh, strict=True):
        for name in ("workloads", "replicas", "nodes", "devices"):
            assert _columns(getattr(one, name)) == _columns(getattr(other, name))


def _columns(rows):
    return {
        key: {name: value for name, value in vars(row).items() if name != "_state"}
        for key, row in rows.items()
    }


@pytest.mark.parametrize("seed", range(4))
def test_after_every_step_of_a_random_script_what_is_kept_equals_what_is_read_anew(ticker, seed):
    # Given a pool, its work, and two processes that keep what they read, one of which reads seldom
    chance = Random(seed)
    place = places.article()
    often, seldom = snapshots.Keep(), snapshots.Keep()
    for number in range(25):
        # When people and ticks do things in any order
        _do_something(place, ticker, chance, number)
        # Then what each has kept, and the tick's own, is what the tables say
        assert_kept_equals_fresh(often)
        assert_kept_equals_fresh(run._keep)
        if number % 7 == 0:
            assert_kept_equals_fresh(seldom)


def _do_something(place, ticker, chance, number):
    now = ticker.clock()
    names = sorted(place.workloads)
    one = place.workloads[chance.choice(names)] if names else None
    act = chance.choice(("submit", "submit", "tick", "tick", "stop", "quota", "node", "fact"))
    if act == "submit" or one is None:
        kind = chance.choice((Kind.TRAINING, Kind.TRAINING, Kind.WORKSPACE))
        after = chance.choice(("after=1", "after=3", "exit=1", "after=600"))
        place.submit(
            f"w-{number}",
            of=chance.choice(sorted(place.projects)),
            gpu=chance.choice(("0.09", "0.20", "0.30")),
            kind=kind,
            at=now,
            command=["fake", after],
        )
    elif act == "tick":
        ticker.tick(seconds=chance.choice((1, 5, 40)))
    elif act == "stop" and place.fresh(one.name).deleted_at is None:
        workloads.delete_workload(workload_id=one.pk, authority=SYSTEM, now=now)
        del place.workloads[one.name]
    elif act == "quota":
        project = place.projects[chance.choice(sorted(place.projects))]
        quota_mgpu = chance.choice((300, 400, 500))
        quotas.set_project_quota(
            project_id=project.pk,
            pool_id=place.pool.pk,
            values=QueueQuota(quota_mgpu=quota_mgpu),
            authority=SYSTEM,
            now=now,
        )
    elif act == "node":
        node = models.Node.objects.first()
        nodes.set_cordoned(node_id=node.pk, cordoned=not node.cordoned, authority=SYSTEM, now=now)
    else:
        # A writer that tells nobody: not a single number but the fact itself changes
        field = chance.choice(("checkpoint_at", "running_since", "starving_since", "priority"))
        value = F("priority") + 1 if field == "priority" else now + timedelta(seconds=number)
        models.Workload.objects.filter(pk=one.pk).update(**{field: value})


def test_rows_that_did_not_change_are_not_made_again(ticker):
    # Given two workloads that were read
    place = places.article()
    for name in ("a", "b"):
        place.submit(name, of="unit-a", gpu="0.09")
    keep = snapshots.Keep()
    _, (before,) = snapshots.load_pools(keep=keep)
    # When one of them changes, whoever wrote it
    marked_at = places.START + timedelta(seconds=9)
    models.Workload.objects.filter(name="a").update(checkpoint_at=marked_at)
    _, (after,) = snapshots.load_pools(keep=keep)
    # Then that one is made anew, and the other is the very same value
    old = {each.name: each for each in before.snapshot.workloads}
    new = {each.name: each for each in after.snapshot.workloads}
    assert new["a"].checkpoint_at_us == to_us(marked_at)
    assert new["b"] is old["b"]
    # When one is gone, then it is let go
    models.Workload.objects.filter(name="b").delete()
    snapshots.load_pools(keep=keep)
    assert set(keep.workloads._known) == {place.workloads["a"].pk}
