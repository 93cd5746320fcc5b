"""The stream of decisions: it goes on where it broke, and tells each reader what is theirs."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.utils import timezone

from access.models import AccessToken
from access.roles import Role
from dashboard.api import decisions
from scheduler import models
from tests.api.conftest import Api, token_of
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db

OWN, FOREIGN = "nlp-lab", "vision-lab"


@pytest.fixture(autouse=True)
def looks(monkeypatch):
    """Looks follow at once, each that finds nothing is told, and two decisions come at a time.

    The server closes old connections around each look; here the test's own is used.
    """
    monkeypatch.setattr("channels.db.close_old_connections", lambda: None)
    monkeypatch.setattr(decisions, "LOOK_S", 0.0)
    monkeypatch.setattr(decisions, "SILENT_S", 0.0)
    monkeypatch.setattr(decisions, "AT_ONCE", 2)


def decide(name):
    """Write down that a work of a project was placed; return the decision's id."""
    project = models.Project.objects.get(name=name)
    workload = models.Workload.objects.filter(project=project, phase="running").first()
    made = models.Decision.objects.create(
        pool=workload.pool,
        project=project,
        workload=workload,
        at=timezone.now(),
        cycle=1,
        verb="place",
    )
    return made.pk


def follow(call, *, count, when_silent=None, **headers):
    """The ids of so many events of a new connection; fewer where the server ends it before.

    When nothing more has come for the first time, ``when_silent`` happens.
    """
    answer = call.get("/decisions/stream", **headers)
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream")
    return _read(answer.streaming_content, count=count, when_silent=when_silent)


@async_to_sync
async def _read(frames, *, count, when_silent):
    found = []
    assert await anext(frames) == b"retry: 2000\n\n"
    async for frame in frames:
        if frame == b": still here\n\n":
            assert when_silent, f"nothing comes after {found}"
            await sync_to_async(when_silent)()
            when_silent = None
            continue
        told, kind, data = frame.decode().removesuffix("\n\n").split("\n")
        assert kind == "event: decision"
        assert json.loads(data.removeprefix("data: "))["id"] == int(told.removeprefix("id: "))
        found.append(int(told.removeprefix("id: ")))
        if len(found) == count:
            break
    return found


def test_a_broken_stream_goes_on_after_its_last_event(api_of):
    # Given someone of one project, and decisions on its work among those of others
    call = api_of(Role.RESEARCHER, OWN)
    before = decide(OWN)
    own = []
    for _ in range(5):
        decide(FOREIGN)
        own.append(decide(OWN))
    # When the connection breaks within the second look, and is made anew with the last id
    first = follow(call, count=3, Last_Event_ID=str(before))
    second = follow(call, count=2, Last_Event_ID=str(first[-1]))
    # Then each of one's own came once and in order, and none of the others
    assert first == own[:3]
    assert second == own[3:]


def test_a_reader_of_all_is_told_each_decision_once(api):
    before = decide(OWN)
    made = [decide(name) for name in (FOREIGN, OWN, FOREIGN)]
    assert follow(api, count=3, Last_Event_ID=str(before)) == made


def test_without_a_last_event_it_tells_only_what_comes(api_of):
    # Given decisions of before
    decide(OWN)
    made = []
    # When someone follows, and decisions are made after a first look that found none
    told = follow(
        api_of(Role.RESEARCHER, OWN),
        count=2,
        when_silent=lambda: made.extend(decide(name) for name in (FOREIGN, OWN, FOREIGN, OWN)),
    )
    # Then what is one's own of them comes, and nothing of before
    assert told == [made[1], made[3]]


def test_one_goes_on_after_an_event_that_one_may_not_see_all_the_same(api_of):
    foreign, made = decide(FOREIGN), decide(OWN)
    told = follow(api_of(Role.RESEARCHER, OWN), count=1, Last_Event_ID=str(foreign))
    assert told == [made]


def test_the_stream_ends_with_the_token_that_it_was_asked_with(scene):
    # Given someone without a session, who follows by an access token
    user = person("lin", Role.RESEARCHER, project=OWN)
    call = Api(user)
    secret = token_of(user)
    call.client.logout()

    # When the token is gone, and a decision is made
    def lose_the_token():
        assert AccessToken.objects.filter(user=user).delete()[0]
        decide(OWN)

    told = follow(call, count=1, when_silent=lose_the_token, Authorization=f"Bearer {secret}")
    # Then the stream has ended before it told that
    assert told == []


@pytest.mark.parametrize("wrong", ["-1", "x", "1.5", str(2**63)])
def test_a_last_event_that_is_no_id_is_refused(api, wrong):
    assert api.get("/decisions/stream", Last_Event_ID=wrong).status_code == 422
