"""The tick decides from state that it keeps; a check now and then finds out if that went wrong."""

from __future__ import annotations

import io
import logging

import pytest
from django.core.management import CommandError, call_command

from scheduler.core.kept import Kept
from scheduler.core.plan import Holds, Plan
from scheduler.tick import decide
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def always_checked(settings):
    decide.forget()
    settings.KEPT_CHECK_EVERY = 1
    yield
    decide.forget()


@pytest.mark.usefixtures("always_checked")
def test_a_scene_is_decided_from_kept_state_as_from_nothing(ticker, caplog):
    caplog.set_level(logging.ERROR, logger="scheduler.tick.decide")
    # Given work of two departments that comes and ends, with a check of every plan
    place = places.article()
    for number in range(1, 8):
        place.submit(f"train-{number}", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    place.submit("chat", of="dev-chat", gpu="0.20", command=["fake"])
    ticker.settle()
    # Then it runs, and no check found a difference
    assert "running" in place.phases().values()
    assert [record.message for record in caplog.records] == []


@pytest.mark.usefixtures("always_checked")
def test_a_plan_that_differs_is_said_and_does_not_count(ticker, caplog, monkeypatch):
    caplog.set_level(logging.ERROR, logger="scheduler.tick.decide")
    # Given kept state that has gone wrong: it starts nothing
    monkeypatch.setattr(Kept, "decide", lambda _: Plan(decisions=(), holds=Holds()))
    place = places.article()
    place.submit("train", of="unit-a", gpu="0.09", command=["fake"])
    # When the tick runs
    ticker.settle()
    # Then the work runs all the same, and the log names what differed
    assert place.phases() == {"train": "running"}
    assert caplog.records[0].message == "tick.kept.differs"
    assert "decisions" in caplog.records[0].parts


def test_the_command_compares_on_made_up_changes(ticker):
    place = places.article()
    for number in range(1, 8):
        place.submit(f"train-{number}", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    before = place.phases()
    said = io.StringIO()
    call_command("check_kept", steps=30, stdout=said)
    assert "30 plans the same; 7 workloads" in said.getvalue()
    assert place.phases() == before


def test_the_command_tells_after_what_it_differs(ticker, monkeypatch):
    place = places.article()
    place.submit("train", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    monkeypatch.setattr(Kept, "decide", lambda _: Plan(decisions=(), holds=Holds()))
    said = io.StringIO()
    with pytest.raises(CommandError, match="kept state differs"):
        call_command("check_kept", steps=30, stdout=said)
    assert "DIFFERS after 0 changes in" in said.getvalue()
