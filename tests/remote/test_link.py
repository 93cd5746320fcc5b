"""The one file that speaks to Ray: whatever Ray raises, callers hear of a node or a head that is away."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scheduler.engines.base import EngineUnreachable, LaunchRefused
from scheduler.remote.link import RayLink, RayNode


class RayError(Exception):
    """Ray's own base of what goes wrong in a cluster."""


class RayTaskError(RayError):
    """What an actor raised, with the cause inside."""

    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


NODE = RayNode(name="n1", pool_name="main", node_id="id-1", host="127.0.0.2")
OTHER = RayNode(name="n2", pool_name="main", node_id="id-2", host="127.0.0.3")


class Ray:
    """As much of Ray's module as a link uses; what it answers or raises is said by a test."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self):
        self.told = []
        self.answers = {}

    def is_initialized(self):
        return True

    def nodes(self):
        return _give(self.told)

    def get(self, answer, timeout=None):
        return _give(self.answers[answer])

    def wait(self, asked, num_returns, timeout):
        ready = [each for each in asked if each in self.answers]
        return ready, [each for each in asked if each not in self.answers]


def _give(answer):
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture
def ray():
    return Ray()


@pytest.fixture
def link(ray):
    made = RayLink(address="127.0.0.2:6379", token_file="", lease_s=30, owner="tests")
    made._module = ray
    for node in (NODE, OTHER):
        method = SimpleNamespace(remote=lambda *_, name=node.name: name)
        made._agents[node.node_id] = SimpleNamespace(look=method, launch=method)
    return made


TROUBLES = [RayError("lost"), OSError("refused"), RuntimeError("shut down"), ValueError("no actor")]


@pytest.mark.parametrize("trouble", TROUBLES, ids=repr)
def test_a_head_that_is_away_is_said_so_at_every_door(link, ray, trouble):
    ray.told = trouble
    with pytest.raises(EngineUnreachable, match="the head does not answer"):
        link.nodes()
    ray.wait = lambda *_, **__: _give(trouble)
    with pytest.raises(EngineUnreachable, match="the head does not answer"):
        link.call_all([NODE], "look", timeout_s=1)


@pytest.mark.parametrize("trouble", TROUBLES, ids=repr)
def test_a_node_that_is_away_is_said_so_and_its_agent_is_looked_for_anew(link, ray, trouble):
    ray.answers["n1"] = trouble
    with pytest.raises(EngineUnreachable, match="node n1 does not answer"):
        link.call(NODE, "launch", "spec")
    assert NODE.node_id not in link._agents


def test_of_many_nodes_one_that_fails_takes_nothing_from_the_others(link, ray):
    ray.answers = {"n1": RayError("its actor died"), "n2": "what runs there"}
    assert link.call_all([NODE, OTHER], "look", timeout_s=1) == {OTHER: "what runs there"}
    assert set(link._agents) == {OTHER.node_id}


def test_a_node_that_is_slow_is_not_asked_again_before_it_has_answered(link, ray, monkeypatch):
    # Given a node that does not answer in time, beside one that does
    asked = []
    slow = SimpleNamespace(remote=lambda: asked.append(1) or f"question {len(asked)}")
    link._agents[NODE.node_id] = SimpleNamespace(look=slow)
    clock = SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr("scheduler.remote.link.time.monotonic", lambda: clock.now_s)
    ray.answers = {"n2": "what runs there"}
    patience = []
    wait = ray.wait

    def let_pass(asked, num_returns, timeout):
        ready, late = wait(asked, num_returns, timeout)
        patience.append(timeout)
        clock.now_s += timeout if late else 0
        return ready, late

    ray.wait = let_pass
    for _ in range(3):
        assert link.call_all([NODE, OTHER], "look", timeout_s=2) == {OTHER: "what runs there"}

    # Then it has one question, however often the others are asked
    assert len(asked) == 1

    # And when it has answered, too late, it is asked anew, with more time to answer
    clock.now_s += 1
    ray.answers |= {"question 1": "old", "question 2": "new"}
    found = link.call_all([NODE, OTHER], "look", timeout_s=2)
    assert found == {NODE: "new", OTHER: "what runs there"}
    assert patience[-1] > 2

    # And a question that is too old counts for nothing
    del ray.answers["question 2"]
    del ray.answers["n2"]
    link.call_all([NODE], "look", timeout_s=2)
    clock.now_s += 1000
    link.call_all([NODE], "look", timeout_s=2)
    assert len(asked) == 4


def test_what_an_engine_refuses_is_heard_as_the_refusal(link, ray):
    ray.answers["n1"] = RayTaskError(LaunchRefused("no such command"))
    with pytest.raises(LaunchRefused, match="no such command"):
        link.call(NODE, "launch", "spec")
    # And what an agent did not foresee is one that can't be reached: nothing is concluded
    ray.answers["n1"] = RayTaskError(KeyError("x"))
    with pytest.raises(EngineUnreachable, match="the agent failed"):
        link.call(NODE, "launch", "spec")


def test_without_a_connection_nothing_is_known(monkeypatch):
    link = RayLink(address="127.0.0.2:1", token_file="", lease_s=30, owner="tests")
    monkeypatch.setattr(link, "_connect", lambda: None)
    with pytest.raises(EngineUnreachable, match=r"no connection to Ray at 127\.0\.0\.2:1 yet"):
        link.nodes()
