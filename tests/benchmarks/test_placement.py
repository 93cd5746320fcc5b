"""The FGD protocol: arrivals, scores worked out by hand, and nothing placed where it does not fit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from scheduler.management.benches.openb import (
    Ask,
    PodList,
    TraceMissing,
    TraceNode,
    arrivals,
    read_nodes,
    read_pod_lists,
)
from scheduler.management.benches.placement import POLICIES, play
from scheduler.management.benches.placement_rivals import (
    BestFit,
    DotProd,
    Fgd,
    GpuClustering,
    GpuPacking,
    Host,
    ScoredBoard,
)

OPENB = Path(__file__).parent.parent / "data" / "openb"
ANY: frozenset[str] = frozenset()


def ask(mgpu, *, devices=1, cpu_milli=1000, models=ANY):
    return Ask(cpu_milli=cpu_milli, memory_mib=1, devices=devices, mgpu=mgpu, models=models)


def node(name="n", *, devices=2, cpu_milli=64_000, model="T4"):
    return TraceNode(name=name, cpu_milli=cpu_milli, memory_mib=1024, devices=devices, model=model)


def test_arrivals_ask_for_130_percent_of_the_pool_and_come_from_the_list():
    nodes, pods = read_nodes(OPENB), read_pod_lists(OPENB)[0]
    total_mgpu = 1000 * sum(each.devices for each in nodes)
    listed = arrivals(pods, total_mgpu=total_mgpu, seed=42)
    asked = sum(pods.asks[at].total_mgpu for at in listed)
    # The draw that decides counts one device of a pod only, so up to seven more may come in.
    assert 1.3 * total_mgpu - 8000 < asked <= 1.3 * total_mgpu + 7000
    assert set(listed) <= set(pods.pods)
    assert listed == arrivals(pods, total_mgpu=total_mgpu, seed=42)
    assert listed != arrivals(pods, total_mgpu=total_mgpu, seed=43)


def test_a_list_that_asks_for_more_than_130_percent_is_cut():
    pods = PodList(name="x", asks=(ask(1000),), pods=(0,) * 50)
    assert len(arrivals(pods, total_mgpu=10_000, seed=1)) == 13


def test_best_fit_takes_the_fuller_node_and_the_tightest_device():
    host = Host(node(devices=2))
    host.free = (700, 400)
    # CPU left 63 of 128, GPU left 0.7 of 8: 100 x (1 - (0.5 x 0.4922 + 0.5 x 0.0875)) = 71.01
    assert BestFit().rate(host, ask(400)) == (71, 1)


def test_dot_product_prefers_the_node_that_has_less_of_what_is_asked_for():
    host = Host(node(devices=2))
    host.free = (1000, 400)
    # 64 of 128 CPU times 1 of 128, 1.4 of 8 GPU times 0.4 of 8:
    # 100 x (1 - (0.5 x 0.0078 + 0.175 x 0.05) / 2) = 99.37; the tightest device takes it
    assert DotProd().rate(host, ask(400)) == (99, 1)
    # With 4 GPUs of 8 asked for: 100 x (1 - (0.5 x 0.0078 + 0.5 x 0.5) / 2) = 87.30
    assert DotProd().rate(Host(node(devices=4)), ask(1000, devices=4)) == (87, 0)


def test_packing_takes_shared_gpus_then_free_ones_of_used_nodes_then_empty_nodes():
    used, empty = Host(node(devices=4)), Host(node(devices=4))
    used.free = (1000, 350, 700, 1000)
    # Shared: the tightest has 35 % free. One that is free has to be opened, or two.
    assert GpuPacking().rate(used, ask(300)) == (97, 1)
    assert GpuPacking().rate(used, ask(800)) == (49, 0)
    assert GpuPacking().rate(used, ask(1000, devices=2)) == (48, 0)
    assert GpuPacking().rate(empty, ask(300)) == (29, 0)
    assert GpuPacking().rate(used, ask(0, devices=0)) == (0, 0)


def test_clustering_keeps_pods_of_one_class_together():
    host = Host(node(devices=8))
    rate = GpuClustering().rate
    # Nothing here: 25. Then one whole GPU of 8: 3 more for what is held, 75 for the same class only.
    assert rate(host, ask(1000)) == (25, 0)
    host.put(ask(1000), 0)
    assert rate(host, ask(1000)) == (78, 1)
    # Another class is here alone: only what is held. Once it is here too: 50.
    assert rate(host, ask(500)) == (3, 1)
    host.put(ask(500), 1)
    assert rate(host, ask(500)) == (54, 1)


def test_fgd_keeps_the_whole_device_for_those_who_need_it():
    # Given a mix of half and whole devices, one of each, and a host with 500 and 1000 free
    mix = PodList(name="x", asks=(ask(500), ask(1000)), pods=(0, 1))
    host = Host(node(devices=2))
    host.free = (1000, 500)
    # When 500 is asked for. On the half: 250 were lost to the whole class, none is: sigmoid(0.25).
    # On the whole: 250 before, 500 after.
    assert Fgd(mix).rate(host, ask(500)) == (56, 1)


def test_of_equal_nodes_the_first_in_order_wins():
    board = ScoredBoard([node("a"), node("b")], score=BestFit())
    assert board.place(ask(1000))
    assert [host.free for host in board._hosts] == [(0, 1000), (1000, 1000)]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_policy_places_what_does_not_fit(policy):
    # Given two nodes, one of them short of CPU, and a model that only one of them has
    nodes = [node("a", cpu_milli=500), node("b", model="P100")]
    asks = (ask(1000, models=frozenset({"P100"})), ask(600), ask(1000, models=frozenset({"T4"})))
    board = POLICIES[policy](nodes, PodList(name="x", asks=asks, pods=(0, 1, 2)), 1)
    # Then b takes the whole one and one of 600; another 600 finds 400, and a has no CPU for any
    assert [board.place(asks[at]) for at in (0, 1, 1, 2)] == [True, True, False, False]


def test_ours_leaves_less_than_fgd_and_fgd_less_than_chance():
    nodes, pods = read_nodes(OPENB), read_pod_lists(OPENB)[0]
    totals: Counter[str] = Counter()
    for policy in ("Random", "FGD", "ours"):
        for seed in (42, 43, 44):
            outcome = play(make=POLICIES[policy], nodes=nodes, pods=pods, seed=seed)
            totals[policy] += outcome.allocated_percent
    assert totals["ours"] > totals["FGD"] > totals["Random"]


def test_a_folder_without_the_trace_is_told(tmp_path):
    with pytest.raises(TraceMissing, match="openb_node_list_gpu_node"):
        call_command("bench", "placement", str(tmp_path))
    with pytest.raises(CommandError, match="name the folder"):
        call_command("bench", "placement")
