"""A preview equals what then happens; two admins; contradictions; quotas below what runs."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from django.db import transaction

from scheduler import models
from scheduler.core import cycle
from scheduler.core import preview as core
from scheduler.core.instants import to_us
from scheduler.core.plan import Evict
from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Kind, Level
from scheduler.operations import quota_rules, quotas
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import QuotaConflict, QuotaRefused
from scheduler.queries import snapshots
from scheduler.queries.quota_preview import changed_snapshot, preview_quotas
from scheduler.queries.quota_tree import read_quota_tree
from scheduler.queries.visibility import SYSTEM as EVERYTHING
from scheduler.queries.visibility import Visibility
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db


def edit(place, name, *, version=None, **values):
    project = place.projects.get(name)
    level, unit = (
        (Level.PROJECT, project) if project else (Level.DEPARTMENT, place.departments[name])
    )
    return quotas.QuotaEdit(level=level, id=unit.pk, values=QueueQuota(**values), version=version)


def save(place, *edits, reason=""):
    return quotas.set_quotas(
        pool_id=place.pool.pk, edits=list(edits), authority=SYSTEM, now=START, reason=reason
    )


def busy_article(ticker):
    """The article's card with services and trainings that run, and some that wait."""
    place = places.article()
    place.submit("chat", of="dev-chat", gpu="0.20", kind=Kind.INFERENCE, command=["fake"])
    place.submit("prod", of="prod-inference", gpu="0.25", kind=Kind.INFERENCE, command=["fake"])
    for unit in ("unit-a", "unit-b", "unit-c"):
        for number in range(3):
            place.submit(f"{unit}-{number}", of=unit, gpu="0.09", command=["fake"])
    ticker.settle()
    return place


def random_wanted(tree, chance):
    """New values for one to three rows, in hundredths of a GPU."""
    wanted = {}
    for row in chance.sample(tree.rows, chance.randint(1, 3)):
        quota_mgpu = 10 * chance.randint(0, 50)
        limit_mgpu = chance.choice([UNLIMITED_MGPU, quota_mgpu, quota_mgpu + 90])
        wanted[row.key] = QueueQuota(
            quota_mgpu=quota_mgpu,
            limit_mgpu=limit_mgpu,
            rank=chance.randint(1, 5),
            weight_milli=1000 * chance.randint(0, 4),
        )
    return wanted


def evictions(plan):
    return {
        (victim.workload_id, decision.served_id, decision.rule)
        for decision in plan.decisions
        if isinstance(decision, Evict)
        for victim in decision.victims
    }


class Undone(Exception):
    """Ends a transaction that is to leave nothing."""


def test_a_preview_equals_what_the_scheduler_then_decides_over_200_random_changes(ticker):
    busy_article(ticker)
    chance = random.Random(47)
    tree = read_quota_tree(visible=EVERYTHING)
    saved = 0
    while saved < 200:
        wanted = random_wanted(tree, chance)
        before = snapshots.load_pool(pool_id=tree.pool.id)
        foreseen = core.preview(
            snapshot=changed_snapshot(before.snapshot, wanted),
            policy=before.policy,
            now_us=to_us(START),
        )
        edits = [
            quotas.QuotaEdit(level=key[0], id=key[1], values=quota) for key, quota in wanted.items()
        ]
        try:
            with transaction.atomic():
                quotas.set_quotas(pool_id=tree.pool.id, edits=edits, authority=SYSTEM, now=START)
                after = snapshots.load_pool(pool_id=tree.pool.id)
                decided = cycle.decide(
                    snapshot=after.snapshot, policy=after.policy, now_us=to_us(START)
                )
                happens = core.preview(
                    snapshot=after.snapshot, policy=after.policy, now_us=to_us(START)
                )
                raise Undone
        except QuotaRefused:
            continue
        except Undone:
            saved += 1
        assert happens == foreseen
        # And the live cycle, in which victims hold their devices until they are gone, asks the same
        # workloads to leave for the same others.
        assert evictions(decided) == evictions(foreseen.plan)


def test_what_a_preview_names_is_what_the_tick_does(ticker):
    # Given unit-c borrows, and dev-embed (guaranteed nothing yet) has work that waits
    place = busy_article(ticker)
    save(place, edit(place, "dev-embed", quota_mgpu=0, limit_mgpu=90))
    place.submit("embed", of="dev-embed", gpu="0.09", command=["fake"])
    ticker.settle()
    assert place.phase("embed") == "pending"
    tree = read_quota_tree(visible=EVERYTHING)
    # When its guarantee would be raised to 0.10
    key = (Level.PROJECT, place.projects["dev-embed"].pk)
    seen = preview_quotas(
        visible=EVERYTHING,
        tree=tree,
        wanted={key: QueueQuota(quota_mgpu=100)},
        now=START + timedelta(minutes=5),
    )
    running = {name for name, phase in place.phases().items() if phase == "running"}
    # Then it names the start and who is reclaimed for it, and the tick does just that
    assert [each.name for each in seen.starts] == ["embed"]
    assert [each.name for each in seen.entitled] == ["embed"]
    victims = {loss.workload.name for loss in seen.losses}
    assert len(victims) == 1
    assert {loss.served.name for loss in seen.losses} == {"embed"}
    save(place, edit(place, "dev-embed", quota_mgpu=100))
    ticker.settle()
    assert place.phase("embed") == "running"
    still = {name for name, phase in place.phases().items() if phase == "running"}
    assert running - still == victims


def test_the_second_of_two_admins_is_told_and_both_attempts_are_on_record():
    # Given X and Y read unit-a at the same version
    place = places.article()
    read_at = models.ProjectQuota.objects.get(project=place.projects["unit-a"]).version
    save(place, edit(place, "unit-a", version=read_at, quota_mgpu=90, limit_mgpu=500))
    # When Y saves from the old values
    with pytest.raises(QuotaConflict, match="system has changed unit-a"):
        save(place, edit(place, "unit-a", version=read_at, quota_mgpu=90, weight_milli=3000))
    row = models.ProjectQuota.objects.get(project=place.projects["unit-a"])
    assert (row.limit_mgpu, row.weight_milli) == (500, 2000)
    results = models.AuditEntry.objects.filter(action="quota.set").order_by("id")
    assert [entry.result for entry in results][-2:] == ["done", "refused"]


def test_of_two_raises_that_only_fit_alone_the_second_is_refused():
    # Given 0.09 of dev-test's 0.75 is still free for guarantees, and sums above it are forbidden
    place = places.article()
    models.Cluster.objects.update(forbid_oversubscription=True)
    save(place, edit(place, "unit-a", quota_mgpu=160))
    with pytest.raises(QuotaRefused, match=r"0\.80 of 0\.75"):
        save(place, edit(place, "unit-b", quota_mgpu=160))
    assert models.ProjectQuota.objects.get(project=place.projects["unit-b"]).quota_mgpu == 90


def test_a_draft_is_saved_whole_or_not_at_all():
    place = places.article()
    with pytest.raises(QuotaRefused):
        save(
            place,
            edit(place, "unit-a", quota_mgpu=50),
            edit(place, "unit-b", quota_mgpu=90, limit_mgpu=10),
        )
    assert models.ProjectQuota.objects.get(project=place.projects["unit-a"]).quota_mgpu == 90


def test_a_quota_cut_below_protected_work_is_refused_and_names_it(ticker):
    # Given 0.30 for a workspace of 0.20 that can't be interrupted and a training of 0.10
    place = (
        places.card().department("d", quota="1").project("p", of="d", quota="0.30", limit="0.30")
    )
    place.submit("desk", of="p", gpu="0.20", kind=Kind.WORKSPACE, command=["fake"])
    place.submit("train", of="p", gpu="0.10", command=["fake"])
    ticker.settle()
    # When it is cut to 0.15, then the workspace is named; to 0.20, it is saved with what it means
    with pytest.raises(QuotaRefused, match=r"holds 0\.20 \(desk\)"):
        save(place, edit(place, "p", quota_mgpu=150, limit_mgpu=150))
    warnings = save(place, edit(place, "p", quota_mgpu=200, limit_mgpu=200))
    assert [(w.code, w.params["over"]) for w in warnings] == [("holds_above_limit", 100)]
    # And a limit below its guarantee is said as that, not as less than nothing above it
    tree = read_quota_tree(visible=EVERYTHING)
    wrong = edit(place, "p", quota_mgpu=400, limit_mgpu=250)
    changed = tree.with_quotas({wrong.key: wrong.values})
    assert quota_rules.find_warnings(tree=changed, edited=[wrong.key]) == []
    # Then nothing ends by that, and nothing new starts
    place.submit("late", of="p", gpu="0.05", command=["fake"])
    ticker.settle()
    assert place.phases() == {"desk": "running", "train": "running", "late": "pending"}
    save(place, edit(place, "p", quota_mgpu=350, limit_mgpu=350))
    ticker.settle()
    assert place.phase("late") == "running"


@pytest.mark.parametrize("name", ["d", "p"])
def test_over_quota_switched_off_sets_the_limit_to_the_quota_at_either_level(name):
    place = places.card().department("d", quota="0.50").project("p", of="d", quota="0.20")
    save(place, edit(place, name, quota_mgpu=300, limit_mgpu=900, over_quota=False))
    row = read_quota_tree(visible=EVERYTHING).row(edit(place, name).key)
    assert (row.quota.quota_mgpu, row.quota.limit_mgpu) == (300, 300)
    assert row.quota.effective_limit_mgpu == 300
    history = models.QuotaHistory.objects.filter(to_us=None).get(
        department=place.departments["d"], project=place.projects["p"] if name == "p" else None
    )
    assert (history.limit_mgpu, history.over_quota) == (300, False)


def test_a_limit_may_equal_the_guarantee_at_both_levels_and_is_kept_by_the_tick(ticker):
    # Given department and project with limit = guarantee = 0.30, on a card with room for more
    place = (
        places.card()
        .department("d", quota="0.30", limit="0.30")
        .project("p", of="d", quota="0.30", limit="0.30")
    )
    for number in range(4):
        place.submit(f"t-{number}", of="p", gpu="0.10", command=["fake"])
    ticker.settle()
    # Then three run and one waits, and the change back to no limit is accepted as well
    assert sorted(place.phases().values()) == ["pending", "running", "running", "running"]
    save(place, edit(place, "d", quota_mgpu=300), edit(place, "p", quota_mgpu=300))
    ticker.settle()
    assert set(place.phases().values()) == {"running"}


def test_contradictions_are_said_from_the_side_of_the_child_and_of_the_parent():
    # Given cluster 1.00, a department with 0.40 and two projects with 0.20
    place = places.card().department("d", quota="0.40", limit="0.40")
    place.project("p1", of="d", quota="0.20").project("p2", of="d", quota="0.20")

    def codes(*edits):
        return [w.code for w in save(place, *edits)]

    assert codes(edit(place, "d", quota_mgpu=250, limit_mgpu=250)) == ["oversubscribed_projects"]
    assert codes(edit(place, "p2", quota_mgpu=210)) == ["oversubscribed_department"]
    assert codes(edit(place, "d", quota_mgpu=1100)) == ["oversubscribed_pool"]
    with pytest.raises(QuotaRefused, match=r"limit 0\.10 is below the guarantee 0\.20"):
        save(place, edit(place, "p2", quota_mgpu=200, limit_mgpu=100))


# --- On the map -----------------------------------------------------------------------------------


def moves_of(preview):
    return {
        (node.name, index, each.name, each.mark.value, each.mgpu)
        for node in preview.map.nodes
        for index, each in node.moves
    }


def test_the_map_of_a_preview_shows_what_leaves_and_what_comes_where_it_then_does(ticker):
    # Given unit-c borrows, and dev-embed (guaranteed nothing yet) has work that waits
    place = busy_article(ticker)
    save(place, edit(place, "dev-embed", quota_mgpu=0, limit_mgpu=90))
    place.submit("embed", of="dev-embed", gpu="0.09", command=["fake"])
    ticker.settle()
    # When its guarantee would be raised
    key = (Level.PROJECT, place.projects["dev-embed"].pk)
    seen = preview_quotas(
        visible=EVERYTHING,
        tree=read_quota_tree(visible=EVERYTHING),
        wanted={key: QueueQuota(quota_mgpu=100)},
        now=START,
    )
    # Then the card shows one slice that leaves and one that comes, and the tick does just that
    (victim,) = [loss.workload.name for loss in seen.losses]
    (node,) = seen.map.nodes
    assert moves_of(seen) == {
        (node.name, 0, victim, "leaves", 90),
        (node.name, 0, "embed", "comes", 90),
    }
    save(place, edit(place, "dev-embed", quota_mgpu=100))
    ticker.settle()
    held = models.ReplicaDevice.objects.values_list("replica__workload__name", flat=True)
    assert {each.name for each in node.devices[0].then} == set(held)


@pytest.mark.parametrize("shown", [True, False])
def test_the_map_of_a_preview_holds_no_name_of_others_and_by_the_setting_no_amount(ticker, shown):
    # Given a reader of dev-embed alone, whose guarantee would take a slice back from another project
    place = busy_article(ticker)
    models.Cluster.objects.update(show_others_in_use=shown)
    save(place, edit(place, "dev-embed", quota_mgpu=0, limit_mgpu=90))
    place.submit("embed", of="dev-embed", gpu="0.09", command=["fake"])
    ticker.settle()
    project = place.projects["dev-embed"]
    visible = Visibility(cluster=False, project_ids=frozenset({project.pk}))
    seen = preview_quotas(
        visible=visible,
        tree=read_quota_tree(visible=visible),
        wanted={(Level.PROJECT, project.pk): QueueQuota(quota_mgpu=100)},
        now=START,
    )
    # Then its own slice comes, and the others are one amount without a name, or nothing
    assert [move[2:4] for move in moves_of(seen)] == [("embed", "comes")]
    slices = [
        each for node in seen.map.nodes for each in (*node.devices[0].now, *node.devices[0].then)
    ]
    others = [each for each in slices if each.name != "embed"]
    assert {(each.name, each.project_name) for each in others} <= {("", "")}
    assert bool(others) is shown
