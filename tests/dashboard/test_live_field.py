"""The socket as strangers and bad lines use it: whom it tells what, and that no page stays wrong."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from channels.db import database_sync_to_async
from django.utils import timezone

from access.roles import Role
from dashboard import live_wire
from dashboard.live_client import QUEUE_SIZE, Client
from dashboard.live_scopes import Loaded, Message, Rights, Scope, ScopeStream
from scheduler import models
from scheduler.core.vocabulary import Phase, ReplicaPhase
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.dashboard.conftest import person
from tests.dashboard.test_live import ALL, Page, told  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)
SCOPE = Scope(visible=WHOLE_CLUSTER, language="en", zone="", pool_name="")


class Recorder(Page):
    """A plain client that keeps every frame that it is sent."""

    def __init__(self, user):
        super().__init__(user)
        self.frames = []

    async def next(self, *kinds):
        while True:
            frame = await self.wire.receive_from(timeout=10)
            self.frames.append(frame)
            message = json.loads(frame)
            if message["t"] in kinds:
                return message

    async def silence(self):
        """Take what still comes."""
        while not await self.wire.receive_nothing(timeout=0.5):
            self.frames.append(await self.wire.receive_from(timeout=10))

    def recorded(self):
        return "\n".join(self.frames)


def names_of_scope(project):
    """Names of workloads and projects: a project's own, and everybody else's."""
    work = models.Workload.objects.select_related("project")
    own = {project, *work.filter(project__name=project).values_list("name", flat=True)}
    foreign = {
        *models.Project.objects.exclude(name=project).values_list("name", flat=True),
        *work.exclude(project__name=project).values_list("name", flat=True),
    }
    return own, foreign


def said(names, frames):
    """Which of the names are in the frames, as whole words."""
    return {name for name in names if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", frames)}


def end_the_victim():
    """The reclaim of the scene comes to its end: the victim is gone, the nominee runs there."""
    now = timezone.now()
    victim = models.Replica.objects.get(workload__name="sft-nightly")
    probe = models.Workload.objects.get(name="probe-7b")
    device = victim.holdings.get().device
    victim.holdings.all().delete()
    models.Replica.objects.filter(pk=victim.pk).update(phase=ReplicaPhase.ENDED, ended_at=now)
    models.Workload.objects.filter(name="sft-nightly").update(phase=Phase.PENDING, phase_since=now)
    replica = models.Replica.objects.create(
        workload=probe, node=victim.node, phase=ReplicaPhase.RUNNING, booked_at=now, mgpu=1000
    )
    models.ReplicaDevice.objects.create(replica=replica, device=device, mgpu=1000)
    models.Workload.objects.filter(pk=probe.pk).update(phase=Phase.RUNNING, running_since=now)


@pytest.fixture
def two_readers(scene, researcher):
    """Who sees the taker alone, and who sees the borrower alone."""
    return researcher, person("wu", Role.RESEARCHER, project="dev-train")


async def test_two_scopes_that_watch_one_reclaim_get_disjoint_names(
    two_readers,
    told,  # noqa: F811
):
    taker, borrower = map(Recorder, two_readers)
    # Given both watch while dev-train's work is being taken back for nlp-lab
    for page in (taker, borrower):
        await page.open()
    # When it ends: the borrower's work is gone, the taker's runs in its place
    await database_sync_to_async(end_the_victim)()
    told()
    for page in (taker, borrower):
        await page.next("d")
        await page.silence()
        await page.wire.disconnect()
    # Then each was told of its own, by name, and in no frame of the other's
    names = database_sync_to_async(names_of_scope)
    for page, project, seen in (
        (taker, "nlp-lab", "probe-7b"),
        (borrower, "dev-train", "sft-nightly"),
    ):
        own, foreign = await names(project)
        assert seen in said(own, page.recorded())
        assert said(foreign, page.recorded()) == set()
    both = said((await names("nlp-lab"))[0], taker.recorded())
    assert both.isdisjoint(said((await names("dev-train"))[0], borrower.recorded()))


@pytest.mark.parametrize(
    "order",
    [
        {"op": "sub", "topics": ["map", "project:2", "dev-train", "*"], "pool": "main"},
        {"op": "sub", "topics": "*", "project": 1},
        {"op": "sub", "topics": ["events", "waiting"], "department": "Dev and test"},
        {"op": "sub", "topics": sorted(ALL), "scratch": True, "scope": "cluster", "visible": "all"},
        {"op": "sub", "topics": [["map"]], "pool": ["main"], "since": "all"},
        {"op": "join", "group": "live.cluster"},
    ],
    ids=["group names", "a wildcard", "a department", "a wider scope", "lists", "a group"],
)
async def test_b37_a_subscription_to_what_is_foreign_brings_nothing_of_it(
    scene,
    researcher,
    told,  # noqa: F811
    order,
):
    # Given a researcher of nlp-lab with a plain client
    page = Recorder(researcher)
    connected, _ = await page.wire.connect()
    assert connected
    # When it subscribes to more than that, and work of others and of its own changes
    await page.wire.send_json_to(order)
    await page.wire.send_json_to({"op": "resync"})
    await page.next("snap")
    await database_sync_to_async(end_the_victim)()
    told()
    await page.next("d")
    await page.silence()
    await page.wire.disconnect()
    # Then no frame has a foreign name, and counters count its own alone
    _own, foreign = await database_sync_to_async(names_of_scope)("nlp-lab")
    assert said(foreign, page.recorded()) == set()
    held = await database_sync_to_async(
        lambda: sum(
            models.ReplicaDevice.objects.filter(
                replica__workload__project__name="nlp-lab"
            ).values_list("mgpu", flat=True)
        )
    )()
    last = [json.loads(frame)["kpi"] for frame in page.frames if '"kpi"' in frame][-1:]
    assert [kpi["held"] for kpi in last] in ([], [held])


async def test_b37_what_is_missing_and_what_is_foreign_are_answered_alike(scene, researcher):
    # Given names of a thing that is foreign and of one that is nowhere
    answers = []
    for name in ("dev-train", "no-such-thing"):
        page = Recorder(researcher)
        await page.open(topics=["map", f"project:{name}"], pool=name)
        await page.silence()
        await page.wire.disconnect()
        states = [json.loads(frame) for frame in page.frames]
        answers.append([sorted(state) for state in states if state["t"] == "snap"])
    # Then both get the same
    assert answers[0] == answers[1]


async def test_b41_a_page_that_slept_gets_what_is_so_now(scene, admin, async_client, told):  # noqa: F811
    # Given a page that is put to sleep, and a workload that ends meanwhile
    page = Recorder(admin)
    asleep = await page.open()
    await page.wire.send_json_to({"op": "pause"})
    await asyncio.sleep(0.1)
    await database_sync_to_async(end_the_victim)()
    told()
    # When it wakes
    await page.wire.send_json_to({"op": "resync"})
    awake = await page.next("snap")
    # Then it gets a whole state, of a number that has gone on, equal to what the API says
    assert awake["seq"] >= asleep["seq"]
    await database_sync_to_async(async_client.force_login)(admin)
    answer = (await async_client.get(f"/api/v1/live?topics={','.join(sorted(ALL))}")).json()
    (now,) = answer["messages"]
    assert {key: awake[key] for key in ("gpu", "wl", "wait", "quota", "ev", "act")} == {
        key: now[key] for key in ("gpu", "wl", "wait", "quota", "ev", "act")
    }
    await page.wire.disconnect()


def test_b41_a_slow_client_costs_a_bounded_amount_and_slows_nobody():
    # Given two pages of one scope, one on a line that takes nothing
    stream = ScopeStream(SCOPE)
    stream.advance(_state(0))
    slow, quick = (
        Client(user_id=n, scope=SCOPE, rights=Rights(visible=WHOLE_CLUSTER, scratch=None))
        for n in (1, 2)
    )
    heard = []
    # When 500 changes come
    for number in range(1, 501):
        message = stream.advance(_state(number))
        for client in (slow, quick):
            client.topics = ALL
            client.offer(message, stream=stream)
        heard.append(json.loads(quick.queue.get_nowait())["seq"])
    # Then the quick one has heard each, and of the slow one's no more than a queue is kept
    assert heard == list(range(2, 502))
    kept = [json.loads(slow.queue.get_nowait()) for _ in range(slow.queue.qsize())]
    assert len(kept) <= QUEUE_SIZE
    # And what is kept begins with a whole state and leads to the present one
    state, *deltas = kept
    assert state["t"] == "snap"
    for delta in deltas:
        assert delta["seq"] == state["seq"] + 1
        state = {**state, **delta, "gpu": {**state["gpu"], **delta["gpu"]}}
    assert state["gpu"] == {"7": [[500, 250, 0]]}


def test_b42_a_number_that_is_none_is_told_as_null_and_the_rest_of_the_message_arrives():
    message = Message(
        head={"t": "d", "seq": 2},
        parts={"ut": {"7": float("nan"), "8": 310}, "kpi": {"util": float("inf"), "held": 5}},
    )
    heard = json.loads(message.encoded(ALL), parse_constant=lambda name: pytest.fail(name))
    assert heard["ut"] == {"7": None, "8": 310}
    assert heard["kpi"] == {"util": None, "held": 5}


def _state(number):
    parts = {"gpu": {"7": [[number, 250, 0]]}, "ut": {}, "kpi": {"util": None}}
    return Loaded(parts=parts, at_ms=number, cycle=number, last_cycle_ms=number)


def test_topics_bring_parts_and_nothing_else():
    assert {name for parts in live_wire.TOPICS.values() for name in parts} >= {"gpu", "kpi", "ev"}
