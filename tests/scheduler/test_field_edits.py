"""Field scenario B47 in the tables: raises at the same time, and a save between a look and its act."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from scheduler import models
from scheduler.core import cycle
from scheduler.core.instants import to_us
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Level
from scheduler.operations import quotas
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import QuotaRefused
from scheduler.queries import snapshots
from scheduler.tick import apply
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db(transaction=True)


def raised(place, name, quota_mgpu):
    return quotas.QuotaEdit(
        level=Level.PROJECT,
        id=place.projects[name].pk,
        values=QueueQuota(quota_mgpu=quota_mgpu),
    )


def save(place, *edits):
    quotas.set_quotas(pool_id=place.pool.pk, edits=list(edits), authority=SYSTEM, now=START)


def test_b47_of_two_raises_at_once_one_is_refused_and_both_are_on_record():
    # Given 0.30 of the department's 0.60 is free for guarantees, and sums above it are forbidden
    place = (
        places.card()
        .department("d", quota="0.60")
        .project("p1", of="d", quota="0.15")
        .project("p2", of="d", quota="0.15")
    )
    models.Cluster.objects.update(forbid_oversubscription=True)
    together = threading.Barrier(2, timeout=60)
    ends = {}

    def raise_by_a_fifth(name):
        try:
            together.wait()
            save(place, raised(place, name, 350))
            ends[name] = "saved"
        except QuotaRefused as refused:
            ends[name] = str(refused)
        finally:
            connection.close()

    # When each is raised by 0.20 from a connection of its own
    threads = [threading.Thread(target=raise_by_a_fifth, args=[name]) for name in ("p1", "p2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    # Then one has it, the other is told the sum, and the department's guarantee is not passed
    (winner,) = [name for name, end in ends.items() if end == "saved"]
    (loser,) = [name for name in ends if name != winner]
    assert "0.70 of 0.60" in ends[loser]
    held = {each.project.name: each.quota_mgpu for each in models.ProjectQuota.objects.all()}
    assert held == {winner: 350, loser: 150}
    # And both attempts are on record, with what was and what was wanted
    done, refused = models.AuditEntry.objects.filter(action="quota.set").order_by("-id")[:2][::-1]
    if done.result == "refused":
        done, refused = refused, done
    assert (done.object_name, done.result) == (winner, "done")
    assert (done.before["quota_mgpu"], done.after["quota_mgpu"]) == (150, 350)
    assert (refused.object_name, refused.result) == (loser, "refused")


def test_b47_a_plan_made_from_the_old_values_is_not_carried_out_on_the_new_ones():
    # Given a plan that starts a training within unit-a's limit
    place = places.article()
    place.submit("train", of="unit-a", gpu="0.09", command=["fake"])
    cluster, (loaded,) = snapshots.load_pools()
    plan = cycle.decide(snapshot=loaded.snapshot, policy=loaded.policy, now_us=to_us(START))
    # When two quotas are saved between the look and the act
    save(place, raised(place, "unit-a", 50), raised(place, "unit-b", 80))
    # Then the whole plan is thrown away, and the next one is made from both new values
    with pytest.raises(apply.PlanStale):
        apply.apply_plan(
            loaded=loaded, plan=plan, generation=cluster.generation, now=START, cycle=1
        )
    assert not models.Replica.objects.exists()
    after, (again,) = snapshots.load_pools()
    assert after.generation > cluster.generation
    seen = {each.name: each.quota.quota_mgpu for each in again.snapshot.projects}
    assert (seen["unit-a"], seen["unit-b"]) == (50, 80)
