"""A node is emptied: by the tick, with the scheduler finding the new places, and with words for all."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler import models
from scheduler.core.drain import AtDeadline, Stay
from scheduler.core.vocabulary import Kind, Reason
from scheduler.operations import drains, nodes
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import NodeRefused, StateRefused
from scheduler.queries import decision_words
from scheduler.queries import drains as queries
from scheduler.queries.visibility import SYSTEM as EVERYTHING
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def place(ticker):
    """Two nodes of two cards; what is submitted at first goes to the first of them."""
    place = places.card(devices=2).department("dev", quota="4").project("p", of="dev", quota="4")
    add_node("card-02", devices=2)
    nodes.set_cordoned(
        node_id=node("card-02").pk, cordoned=True, authority=SYSTEM, now=places.START
    )
    return place


def add_node(name, *, devices):
    device = nodes.DeviceFacts(model="L40S 48 GB", memory_mib=46_068, virtual=True)
    nodes.register_node(
        pool_id=models.NodePool.objects.get().pk,
        facts=nodes.NodeFacts(name=name, devices=[device] * devices, engine="fake"),
        authority=SYSTEM,
        now=places.START,
    )


def node(name):
    return models.Node.objects.get(name=name)


def open_second():
    nodes.set_cordoned(
        node_id=node("card-02").pk, cordoned=False, authority=SYSTEM, now=places.START
    )


def drain(ticker, *, of="card-01", after_s=None, at_deadline=AtDeadline.WAIT):
    deadline = None if after_s is None else ticker.clock() + timedelta(seconds=after_s)
    return drains.begin_drain(
        node_id=node(of).pk,
        deadline=deadline,
        at_deadline=at_deadline,
        authority=SYSTEM,
        now=ticker.clock(),
    )


def where(workload):
    rows = models.Replica.objects.filter(workload=workload, phase="running")
    return sorted(rows.values_list("node__name", flat=True))


def left_on(name, ticker):
    return queries.list_drains(now=ticker.clock())[node(name).pk].left


def test_a_training_leaves_and_goes_on_elsewhere_from_its_checkpoint(ticker, place):
    # Given a training with a checkpoint on the first node, and room on the second
    train = place.submit("train", of="p", gpu="1", command=["fake"])
    ticker.settle()
    ticker.engine.mark_checkpoint(ticker.key(train), epoch=21)
    ticker.tick(seconds=1)
    models.Workload.objects.filter(pk=train.pk).update(submitted_by="lin")
    open_second()
    # When the first node is drained
    drain(ticker)
    ticker.settle()
    # Then the training runs on the second, once interrupted, and no rule between queues was at work
    assert where(train) == ["card-02"]
    assert (place.fresh("train").phase, place.fresh("train").interruptions) == ("running", 1)
    ended = models.Replica.objects.get(workload=train, phase="ended")
    assert (ended.stop_code, ended.node.name) == ("drain", "card-01")
    verbs = models.Decision.objects.filter(workload=train).order_by("id")
    assert list(verbs.values_list("verb", flat=True)) == ["place", "drain", "resume"]
    # And the decision reads as what it is, the owner was told twice, and the node is empty
    said = decision_words.SENTENCES["drain"](verbs[1], EVERYTHING)
    assert "card-01" in "".join(span.text for span in said)
    codes = models.Notification.objects.filter(username="lin").values_list("code", flat=True)
    assert {code for code in codes if code.startswith("drain")} == {"drain_begun", "drained"}
    assert models.NodeDrain.objects.get().emptied_at is not None
    assert models.Announcement.objects.filter(code="node_emptied").count() == 1


def test_nothing_new_comes_until_the_drain_ends(ticker, place):
    drain(ticker)
    place.submit("train", of="p", gpu="1", command=["fake"])
    ticker.settle()
    assert place.phase("train") == "pending"
    # When work may come again, it starts
    drains.end_drain(node_id=node("card-01").pk, authority=SYSTEM, now=ticker.clock())
    ticker.settle()
    assert where(place.workloads["train"]) == ["card-01"]
    actions = list(models.AuditEntry.objects.values_list("action", flat=True))
    assert {"node.drain", "node.undrain"} <= set(actions)


def test_a_service_answers_elsewhere_before_it_leaves(ticker, place):
    # Given a service whose replica takes five seconds to answer
    chat = place.submit("chat", of="p", gpu="1", kind=Kind.INFERENCE, command=["fake", "ready=5"])
    ticker.settle(ticks=8)
    assert where(chat) == ["card-01"]
    open_second()
    # When its node is drained
    drain(ticker)
    ticker.settle(ticks=3)
    # Then a replacement starts, and the old one answers on
    assert where(chat) == ["card-01"]
    assert models.Replica.objects.filter(workload=chat, phase="starting").count() == 1
    (left,) = left_on("card-01", ticker)
    assert left.stay is Stay.REPLACED
    # When the new one answers, the old one goes; at no time did none answer
    answering = []
    for _ in range(300):
        ticker.tick(seconds=1)
        answering.append(len(where(chat)))
        if where(chat) == ["card-02"]:
            break
    assert where(chat) == ["card-02"]
    assert min(answering) >= 1
    events = models.WorkloadEvent.objects.filter(workload=chat, code="replaced")
    assert events.count() == 1
    assert place.fresh("chat").phase == "running"
    assert place.fresh("chat").interruptions == 0


def test_a_service_without_room_for_another_stays(ticker, place):
    chat = place.submit("chat", of="p", gpu="1", kind=Kind.INFERENCE, command=["fake"])
    ticker.settle()
    drain(ticker)
    ticker.settle(ticks=6)
    assert where(chat) == ["card-01"]
    # And the page says that it is replaced first, and why that does not come about
    (left,) = left_on("card-01", ticker)
    assert (left.stay, left.reason_code) == (Stay.REPLACED, Reason.NO_MATCHING_NODE.value)


@pytest.mark.parametrize("at_deadline", AtDeadline)
def test_what_may_not_be_interrupted_is_waited_for_until_the_time_set(ticker, place, at_deadline):
    # Given a workspace, which may not be interrupted
    book = place.submit("book", of="p", gpu="1", kind=Kind.WORKSPACE, command=["fake"])
    ticker.settle()
    open_second()
    # When its node is to be empty in a minute
    drain(ticker, after_s=60, at_deadline=at_deadline)
    ticker.settle(ticks=3, seconds=10)
    # Then it is waited for, and the page says so
    assert where(book) == ["card-01"]
    assert [each.stay for each in left_on("card-01", ticker)] == [Stay.WAITED_FOR]
    assert place.fresh("book").interruptions == 0
    # At the very time the page says what becomes of it
    over = models.NodeDrain.objects.get().deadline
    (late,) = queries.list_drains(now=over)[node("card-01").pk].left
    expected = Stay.WAITED_FOR if at_deadline is AtDeadline.WAIT else Stay.LEAVES
    assert late.stay is expected
    # When the time is over, then it goes on waiting and admins are told, or it is asked to leave
    ticker.settle(ticks=4, seconds=15)
    ticker.settle()
    if at_deadline is AtDeadline.WAIT:
        assert where(book) == ["card-01"]
        assert models.Announcement.objects.filter(code="drain_late").count() == 1
    else:
        assert where(book) == ["card-02"]
        assert models.Decision.objects.get(verb="drain").params["due"] is True


def test_a_drain_is_refused_where_it_makes_no_sense(ticker, place):
    with pytest.raises(NodeRefused):
        drain(ticker, after_s=-5)
    with pytest.raises(NodeRefused):
        drain(ticker, after_s=31 * 86_400)
    drain(ticker)
    with pytest.raises(StateRefused):
        drain(ticker)
    drains.end_drain(node_id=node("card-01").pk, authority=SYSTEM, now=ticker.clock())
    with pytest.raises(StateRefused):
        drains.end_drain(node_id=node("card-01").pk, authority=SYSTEM, now=ticker.clock())


def test_two_nodes_are_emptied_at_once_each_with_its_own_record(ticker, place):
    # Given a training on each of two nodes, and a third node that stays
    first = place.submit("first", of="p", gpu="1", command=["fake"])
    more = place.submit("more", of="p", gpu="1", command=["fake"])
    ticker.settle()
    open_second()
    second = place.submit("second", of="p", gpu="1", command=["fake"])
    ticker.settle()
    assert (where(first), where(more), where(second)) == (["card-01"], ["card-01"], ["card-02"])
    add_node("card-03", devices=4)
    # When both are drained
    drain(ticker)
    drain(ticker, of="card-02")
    ticker.settle()
    # Then all three run on the third, none of them by way of the other drained node
    assert where(first) == where(more) == where(second) == ["card-03"]
    hops = models.Replica.objects.values_list("workload__name", "node__name").order_by("pk")
    assert sorted(hops) == [
        ("first", "card-01"),
        ("first", "card-03"),
        ("more", "card-01"),
        ("more", "card-03"),
        ("second", "card-02"),
        ("second", "card-03"),
    ]
    # And each drain has its own count, its own end, and its own word to admins
    found = queries.list_drains(now=ticker.clock())
    assert {found[node(name).pk].found for name in ("card-01", "card-02")} == {1, 2}
    assert all(each.emptied_at is not None and each.left == () for each in found.values())
    told = models.Announcement.objects.filter(code="node_emptied")
    assert sorted(each.params["node"] for each in told) == ["card-01", "card-02"]
