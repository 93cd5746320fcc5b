"""Live pages: numbered deltas a scope, what a client that comes back gets, rights, slow clients."""

from __future__ import annotations

import asyncio
import json

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.utils import timezone

from access.models import AccessRule
from dashboard import live_hub, live_wire
from dashboard.consumers import LiveConsumer
from dashboard.live_client import QUEUE_SIZE, Client
from dashboard.live_scopes import RING_SIZE, Loaded, Rights, Scope, ScopeStream
from scheduler import models
from scheduler.queries import overview
from scheduler.queries.visibility import WHOLE_CLUSTER

SCOPE = Scope(visible=WHOLE_CLUSTER, language="en", zone="", pool_name="")
ALL = frozenset(live_wire.TOPICS)


def state(at_ms, **gpus):
    parts = {"gpu": dict(gpus), "ut": {}, "kpi": {"util": None, "held": len(gpus)}}
    return Loaded(parts=parts, at_ms=at_ms, cycle=at_ms, last_cycle_ms=at_ms)


def stream_with(*states):
    stream = ScopeStream(SCOPE)
    return stream, [stream.advance(loaded) for loaded in states]


def test_a_delta_tells_only_what_differs_and_what_is_gone():
    _, (first, second) = stream_with(state(1, a=[1], b=[2]), state(2, a=[1], c=[3]))
    assert first is None
    assert second.parts["gpu"] == {"c": [3], "b": None}


def test_numbers_are_contiguous_and_nothing_is_said_where_nothing_changed():
    _, messages = stream_with(state(1, a=[1]), state(2, a=[2]), state(3, a=[2]), state(4, a=[3]))
    assert [m and m.seq for m in messages] == [None, 2, None, 3]


def test_who_comes_back_in_time_gets_what_was_missed():
    stream, _ = stream_with(*[state(n, a=[n]) for n in range(1, 6)])
    missed = stream.since(seq=3, name=stream.name)
    assert [message.seq for message in missed] == [4, 5]


def test_who_comes_back_too_late_gets_the_whole_state():
    stream, _ = stream_with(*[state(n, a=[n]) for n in range(1, RING_SIZE + 10)])
    (message,) = stream.since(seq=2, name=stream.name)
    assert message.head["t"] == "snap"


def test_a_number_of_another_process_is_not_compared():
    stream, _ = stream_with(state(1, a=[1]), state(2, a=[2]))
    (message,) = stream.since(seq=2, name="another")
    assert message.head["t"] == "snap"


def test_utilization_is_told_at_most_every_five_seconds():
    def busy(at_ms, permille):
        loaded = state(at_ms, a=[1])
        loaded.parts["ut"] = {"7": permille}
        return loaded

    _, messages = stream_with(busy(0, 100), busy(1000, 200), busy(5000, 300))
    assert [message and message.parts["ut"] for message in messages] == [None, None, {"7": 300}]


def test_a_slow_client_loses_its_queue_and_gets_the_whole_state():
    stream, messages = stream_with(*[state(n, a=[n]) for n in range(1, QUEUE_SIZE + 4)])
    client = Client(user_id=1, scope=SCOPE, rights=Rights(visible=WHOLE_CLUSTER, scratch=None))
    client.topics = ALL
    for message in filter(None, messages):
        client.offer(message, stream=stream)
    kinds = []
    while not client.queue.empty():
        kinds.append(json.loads(client.queue.get_nowait())["t"])
    assert kinds[0] == "snap"
    assert len(kinds) <= QUEUE_SIZE


def test_snapshot_and_deltas_add_up_to_the_state(scene, everything):
    """Given two states of the scene, when the first takes the difference, then it is the second."""
    before = live_wire.overview_to_wire(
        overview.read_overview(visible=everything, now=timezone.now())
    )
    models.Node.objects.filter(name="h100-01").update(cordoned=True)
    models.ReplicaDevice.objects.filter(replica__workload__name="mixtral").delete()
    models.Replica.objects.filter(workload__name="mixtral").update(
        phase="ended", ended_at=timezone.now()
    )
    models.Workload.objects.filter(name="mixtral").update(phase="completed")
    after = live_wire.overview_to_wire(
        overview.read_overview(visible=everything, now=timezone.now())
    )
    told = live_wire.difference(before=before, after=after)
    for name, value in told.items():
        if name not in live_wire.KEYED:
            before[name] = value
            continue
        merged = {**before[name], **value}
        gone = {key for key, entry in value.items() if entry is None and key not in after[name]}
        before[name] = {key: entry for key, entry in merged.items() if key not in gone}
    assert before == after
    assert "quota" in told
    assert len(told["gpu"]) == 1


# --- Over the socket ------------------------------------------------------------------------------


class Page:
    """A page's connection, as a browser has it."""

    def __init__(self, user, query=""):
        self.wire = WebsocketCommunicator(LiveConsumer.as_asgi(), f"/ws/live/{query}")
        self.wire.scope["user"] = user

    async def open(self, **order):
        connected, _ = await self.wire.connect()
        assert connected
        await self.wire.send_json_to({"op": "sub", "topics": sorted(ALL), **order})
        return await self.next("snap", "d")

    async def next(self, *kinds):
        while True:
            message = await self.wire.receive_json_from(timeout=10)
            if message["t"] in kinds:
                return message

    async def close_code(self):
        while True:
            output = await self.wire.receive_output(timeout=10)
            if output["type"] == "websocket.close":
                return output["code"]


async def test_new_states_wait_while_most_pages_have_still_to_be_sent_the_last():
    # Given three pages of which one is slow
    hub = live_hub.Hub()
    pages = [
        Client(user_id=1, scope=SCOPE, rights=Rights(visible=WHOLE_CLUSTER, scratch=None))
        for _ in range(3)
    ]
    hub._clients = set(pages)
    pages[0].queue.put_nowait("one")
    # Then nobody waits for it; with two of three behind the next state waits
    assert not hub.is_behind()
    pages[1].queue.put_nowait("one")
    assert hub.is_behind()
    # And who has paused does not count
    pages[1].paused = True
    assert not hub.is_behind()


@pytest.fixture
def told():
    """Tell the hub of this test's loop that something changed, as the tick does over Redis."""

    def tell():
        live_hub.hub()._changed.set()

    return tell


@pytest.mark.django_db(transaction=True)
async def test_a_page_gets_the_state_and_then_what_changes(scene, admin, told):
    page = Page(admin)
    snapshot = await page.open()
    assert snapshot["kpi"]["held"] == 59_250
    assert len(snapshot["gpu"]) == 64
    await database_sync_to_async(models.Node.objects.filter(name="h100-01").update)(cordoned=True)
    told()
    delta = await page.next("d")
    assert delta["seq"] == snapshot["seq"] + 1
    assert "gpu" not in delta
    assert [node[4] for node in delta["nodes"] if node[1] == "h100-01"] == ["cordoned"]
    await page.wire.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_two_readers_of_different_scope_get_different_names(scene, admin, researcher):
    whole, own = Page(admin), Page(researcher)
    everything = json.dumps(await whole.open())
    little = json.dumps(await own.open())
    assert "llama-70b" in everything
    assert "nlp-pre" in little
    for name in ("llama-70b", "sft-nightly", "vision-lab", "prod-inference", "Production"):
        assert name not in little
    await whole.wire.disconnect()
    await own.wire.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_the_sentences_are_in_the_language_of_the_page(scene, admin):
    """Given a page in Chinese by the browser's own language, without a cookie, then so is what it hears."""
    chinese, english = Page(admin, "?language=zh-Hant"), Page(admin, "?language=xx")
    said = {page: json.dumps((await page.open())["lede"]) for page in (chinese, english)}
    assert "are allocated" in said[english]
    assert "are allocated" not in said[chinese]
    for page in said:
        await page.wire.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_a_revoked_right_ends_the_stream(scene, researcher, told):
    page = Page(researcher)
    await page.open()
    await database_sync_to_async(AccessRule.objects.all().delete)()
    told()
    assert await page.close_code() == 4403


@pytest.mark.django_db(transaction=True)
async def test_a_paused_page_hears_nothing_until_it_asks_again(scene, admin, told):
    page = Page(admin)
    snapshot = await page.open()
    await page.wire.send_json_to({"op": "pause"})
    await asyncio.sleep(0.1)
    await database_sync_to_async(models.Node.objects.filter(name="h100-01").update)(cordoned=True)
    told()
    await page.wire.send_json_to({"op": "resync"})
    again = await page.next("snap", "d")
    assert again["t"] == "snap"
    assert again["seq"] >= snapshot["seq"]
    await page.wire.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_a_page_without_a_socket_polls_the_same_messages(scene, admin, async_client):
    await database_sync_to_async(async_client.force_login)(admin)
    first = (await async_client.get("/api/v1/live?topics=map,kpi&since=0")).json()
    (snapshot,) = first["messages"]
    assert snapshot["t"] == "snap"
    assert snapshot["kpi"]["gpus"] == 64
    again = await async_client.get(
        f"/api/v1/live?topics=map,kpi&since={snapshot['seq']}&stream={snapshot['stream']}"
    )
    assert again.json()["messages"] == []


@pytest.mark.django_db(transaction=True)
async def test_polling_without_a_session_is_refused(scene, async_client):
    assert (await async_client.get("/api/v1/live?since=0")).status_code == 401
