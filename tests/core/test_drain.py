"""Who is asked to leave a node that is emptied, and who is waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.drain import Leave, Resident, Stay, replaced, stay_of, who_leaves
from scheduler.core.vocabulary import Kind


def resident(workload_id=1, *, kind=Kind.TRAINING, preemptible=True, running=(10,), **more):
    more.setdefault("min_replicas", 1)
    return Resident(
        workload_id=workload_id, kind=kind, preemptible=preemptible, running=running, **more
    )


def test_what_may_be_interrupted_leaves_at_once():
    # Given a training that may be interrupted, running and starting on the node
    found = who_leaves([resident(running=(10,), starting=(11,))])
    # Then it is asked to leave, whole
    assert found == (Leave(workload_id=1, replica_ids=(10, 11), whole=True),)


def test_a_gang_below_its_minimum_leaves_whole():
    # Given a gang of three, two of it on other nodes
    gang = resident(kind=Kind.DISTRIBUTED, min_replicas=3, elsewhere=(20, 21))
    # Then all of it leaves: it is whole or absent
    assert who_leaves([gang]) == (Leave(workload_id=1, replica_ids=(10, 20, 21), whole=True),)


def test_of_an_elastic_gang_only_the_further_replica_leaves():
    gang = resident(kind=Kind.DISTRIBUTED, min_replicas=2, elsewhere=(20, 21))
    assert who_leaves([gang]) == (Leave(workload_id=1, replica_ids=(10,), whole=False),)


@pytest.mark.parametrize("kind", [Kind.WORKSPACE, Kind.TRAINING])
def test_what_may_not_be_interrupted_is_waited_for_until_the_time_set(kind):
    # Given work that may not be interrupted, then it is waited for
    stays = resident(kind=kind, preemptible=False)
    assert who_leaves([stays]) == ()
    assert stay_of(stays) is Stay.WAITED_FOR
    # When the time is over, and what is left is to leave, then it is asked to
    due = resident(kind=kind, preemptible=False, is_due=True)
    assert who_leaves([due]) == (Leave(workload_id=1, replica_ids=(10,), whole=True),)


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_service_is_replaced_first_whatever_may_be_done_to_it(preemptible):
    service = resident(kind=Kind.INFERENCE, preemptible=preemptible, elsewhere=(20,))
    assert who_leaves([service]) == ()
    assert stay_of(service) is Stay.REPLACED
    due = resident(kind=Kind.INFERENCE, preemptible=preemptible, elsewhere=(20,), is_due=True)
    assert who_leaves([due]) == (Leave(workload_id=1, replica_ids=(10,), whole=False),)


def test_a_replica_goes_only_when_another_answers():
    # Given two replicas here of a service that wants two
    assert replaced(here=[1, 2], ready_elsewhere=0, wanted=2) == ()
    # When one answers elsewhere, then one goes, the oldest
    assert replaced(here=[2, 1], ready_elsewhere=1, wanted=2) == (1,)
    # And where fewer are wanted, as many as are not needed
    assert replaced(here=[1, 2], ready_elsewhere=0, wanted=0) == (1, 2)


@given(
    here=st.sets(st.integers(1, 50), max_size=8),
    ready_elsewhere=st.integers(0, 8),
    wanted=st.integers(0, 8),
)
def test_never_do_fewer_answer_than_are_wanted_or_were_there(here, ready_elsewhere, wanted):
    gone = replaced(here=here, ready_elsewhere=ready_elsewhere, wanted=wanted)
    before = len(here) + ready_elsewhere
    assert before - len(gone) >= min(wanted, before)
    assert set(gone) <= here


@given(st.permutations([1, 2, 3, 4]))
def test_the_order_of_the_input_means_nothing(order):
    found = who_leaves([resident(number, running=(number * 10,)) for number in order])
    assert [each.workload_id for each in found] == [1, 2, 3, 4]
