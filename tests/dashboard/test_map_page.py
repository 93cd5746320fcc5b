"""The map alone and as it was: what it shows, to whom, and what the address may ask for."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest

from scheduler import models
from scheduler.queries.cluster_map import FOREIGN, LEAVING
from scheduler.queries.past_map import read_past_map
from scheduler.queries.visibility import WHOLE_CLUSTER

pytestmark = pytest.mark.django_db


def state_of(client, query=""):
    """The map's state as the page carries it."""
    text = client.get(f"/map{query}").content.decode()
    found = re.search(r'<script id="map-state" type="application/json">(.*?)</script>', text)
    return json.loads(found[1])


@pytest.fixture
def placed(scene):
    """The ledger's intervals with their devices, which the scene leaves out."""
    for replica in models.Replica.objects.prefetch_related("holdings__device"):
        indices = sorted(held.device.index for held in replica.holdings.all())
        models.AllocationInterval.objects.filter(replica=replica).update(devices=indices)
    return scene


@pytest.fixture
def reclaim(placed):
    return models.Decision.objects.get(verb="reclaim")


def test_the_map_alone_has_all_gpus_of_its_pool(scene, client, admin):
    client.force_login(admin)
    (state,) = state_of(client)
    assert len(state["parts"]["gpu"]) == 64
    assert {"nodes", "wl", "pr", "quota", "kpi", "act", "ev"} <= set(state["parts"])


def test_grouped_by_pool_it_has_every_pool(scene, client, admin):
    models.NodePool.objects.create(name="spare")
    client.force_login(admin)
    assert [state["pool"] for state in state_of(client, "?group=pool")] == ["main", "spare"]
    assert [state["pool"] for state in state_of(client, "?pool=spare")] == ["spare"]


@pytest.mark.parametrize(
    "query", ["?color=no&density=9&group=%00&pool=zz&node=%3Cb%3E", "?table=2"]
)
def test_what_the_address_can_not_mean_is_left_at_its_default(scene, client, admin, query):
    client.force_login(admin)
    text = client.get(f"/map{query}").content.decode()
    assert 'data-color="project"' in text
    assert 'data-density="auto"' in text
    assert "<b>" not in re.search(r"data-node=\"([^\"]*)\"", text)[1]


def test_an_empty_cluster_says_so(client, admin):
    client.force_login(admin)
    assert "There are no nodes yet." in client.get("/map").content.decode()


def test_a_reader_of_one_project_gets_no_foreign_name(scene, client, researcher):
    client.force_login(researcher)
    told = json.dumps(state_of(client))
    assert "nlp-pre" in told
    for name in ("llama-70b", "sft-nightly", "vision-lab", "Production"):
        assert name not in told


# --- As it was ------------------------------------------------------------------------------------


def test_the_map_at_a_decision_shows_what_was_held_and_marks_the_victim(reclaim):
    # Given a reclaim, and a workload of then that has ended since
    ended = models.AllocationInterval.objects.filter(workload__name="mixtral")
    ended.update(to_us=int(reclaim.at.timestamp() * 1_000_000) + 1)
    # And one that began after it
    later = models.AllocationInterval.objects.filter(workload__name="qwen-32b")
    later.update(from_us=int((reclaim.at + timedelta(seconds=1)).timestamp() * 1_000_000))
    # When the map of that moment is read
    past = read_past_map(visible=WHOLE_CLUSTER, decision_id=reclaim.pk)
    # Then it has the first and not the second, and the victim is leaving
    names = {workload.name for workload in past.map.workloads.values()}
    assert "mixtral" in names
    assert "qwen-32b" not in names
    victim = models.Workload.objects.get(name="sft-nightly").pk
    leaving = {
        part.workload_id
        for parts in past.map.slices.values()
        for part in parts
        if part.flags & LEAVING
    }
    assert leaving == {victim}


def test_what_was_held_adds_up_to_the_ledger(reclaim):
    past = read_past_map(visible=WHOLE_CLUSTER, decision_id=reclaim.pk)
    shown = sum(part.mgpu for parts in past.map.slices.values() for part in parts)
    assert shown == sum(models.AllocationInterval.objects.values_list("mgpu", flat=True))


def test_others_are_one_neutral_amount_then_too(reclaim, nlp_lab):
    past = read_past_map(visible=nlp_lab, decision_id=reclaim.pk)
    own = set(models.Workload.objects.filter(project__name="nlp-lab").values_list("pk", flat=True))
    assert set(past.map.workloads) <= own
    assert {part.workload_id for parts in past.map.slices.values() for part in parts} <= {
        *own,
        FOREIGN,
    }


def test_the_page_of_the_past_is_read_only_and_404_for_who_may_not_see_it(
    reclaim, client, admin, researcher
):
    deny = models.Decision.objects.get(verb="deny", workload__name="seg-xl")
    client.force_login(admin)
    text = client.get(f"/map?at={reclaim.pk}").content.decode()
    assert "As it was when this was decided" in text
    assert "data-live-state" not in text
    client.force_login(researcher)
    assert client.get(f"/map?at={reclaim.pk}").status_code == 200
    assert client.get(f"/map?at={deny.pk}").status_code == 404
    assert client.get("/map?at=987654").status_code == 404


# --- A decision, step by step ---------------------------------------------------------------------


def test_a_reclaim_is_told_in_steps_with_both_figures(reclaim, client, admin):
    client.force_login(admin)
    text = client.get(f"/decisions/{reclaim.pk}").content.decode()
    for said in (
        "Is it within the guarantee?",
        "nlp-lab: 6.25 + 1.00 within 10.00",
        "Who borrows, and who of them goes?",
        "sft-nightly",
        "Where does it run?",
        "h100-03 GPU 7",
        f"/map?at={reclaim.pk}",
        f"/api/v1/decisions/{reclaim.pk}",
    ):
        assert said in text


def test_as_text_it_has_the_same_steps_and_no_markup(reclaim, client, admin):
    client.force_login(admin)
    text = client.get(f"/decisions/{reclaim.pk}").content.decode()
    plain = re.search(r'<pre id="decision-text" hidden>(.*?)</pre>', text, re.DOTALL)[1]
    assert plain.startswith(f"Decision {reclaim.pk}, Reclaim")
    assert "[yes]" in plain
    assert "<" not in plain


def test_a_denial_has_no_map(scene, client, admin):
    client.force_login(admin)
    deny = models.Decision.objects.get(verb="deny")
    assert "/map?at=" not in client.get(f"/decisions/{deny.pk}").content.decode()
