"""The output of a workload: followed by offset, run by run, with times and marks, and as a file."""

from __future__ import annotations

import pytest

from dashboard import output
from scheduler import models
from scheduler.engines.base import ReplicaKey
from scheduler.engines.fake import FakeEngine
from scheduler.queries import outputs
from scheduler.queries.visibility import SYSTEM
from scheduler.tick import engine_room
from tests.api.conftest import Api
from tests.dashboard.conftest import person
from tests.downloads import body_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def printing(scene, monkeypatch):
    """A running workload whose two runs have printed."""
    engine = FakeEngine()
    monkeypatch.setattr(engine_room, "engine", lambda name: engine)
    replica = models.Replica.objects.filter(
        phase="running", ordinal=0, workload__project__name="nlp-lab"
    ).first()
    engine.print_output(ReplicaKey(replica_id=replica.pk, attempt=replica.attempt), "one\ntwo\n")
    before = models.Replica.objects.create(
        workload=replica.workload,
        ordinal=0,
        attempt=replica.attempt + 1,
        node=replica.node,
        phase="ended",
        booked_at=replica.booked_at,
        ended_at=replica.booked_at,
    )
    engine.print_output(ReplicaKey(replica_id=before.pk, attempt=before.attempt), "other\n")
    return replica


def test_output_goes_on_where_it_was_left(printing):
    # Given who has read the first line of a run
    call = Api(person("lin", "viewer", project="nlp-lab"))
    address = f"/workloads/{printing.workload_id}/log?attempt={printing.attempt}"
    first = call.get(f"{address}&offset=0").json()
    assert (first["text"], first["next_offset"], first["ended"]) == ("one\ntwo\n", 8, False)
    # When it asks on from an offset, then it gets what follows and nothing twice
    assert call.get(f"{address}&offset=4").json()["text"] == "two\n"
    assert call.get(f"{address}&offset=8").json()["text"] == ""
    # And another run has an output of its own, and one that never was has none
    newest = call.get(f"/workloads/{printing.workload_id}/log").json()
    assert (newest["text"], newest["ended"], newest["attempt"]) == (
        "other\n",
        True,
        printing.attempt + 1,
    )
    assert call.get(f"/workloads/{printing.workload_id}/log?attempt=99").status_code == 404


def test_the_whole_output_is_a_file_for_those_who_see_the_workload(printing, client):
    address = f"/workloads/{printing.workload_id}/log?attempt={printing.attempt}"
    client.force_login(person("lin", "viewer", project="nlp-lab"))
    answer = client.get(address)
    assert body_of(answer) == b"one\ntwo\n"
    assert "attachment" in answer["Content-Disposition"]
    client.force_login(person("mei", "viewer", project="vision-lab"))
    assert client.get(address).status_code == 404


def test_the_file_of_work_that_prints_on_ends_where_the_output_ended_first(printing, monkeypatch):
    engine, key = (
        engine_room.engine(""),
        ReplicaKey(replica_id=printing.pk, attempt=printing.attempt),
    )
    monkeypatch.setattr(output, "PIECE_BYTES", 3)
    (found,) = outputs.list_outputs(visible=SYSTEM, workload_id=printing.workload_id)[-1:]
    assert found.attempt == printing.attempt
    parts = output.read_all(found)
    read = [next(parts)]
    for _ in range(5):
        engine.print_output(key, "more\n")
    assert b"".join([*read, *parts]) == b"one\ntwo\n"


def test_an_output_that_cannot_be_read_is_said_so_on_the_page(printing, client):
    client.force_login(person("lin", "viewer", project="nlp-lab"))
    engine_room.engine("").is_reachable = False
    answer = client.get(f"/workloads/{printing.workload_id}/log?attempt={printing.attempt}")
    assert (answer.status_code, answer["Location"]) == (302, f"/workloads/{printing.workload_id}")


def test_the_page_offers_each_run_and_begins_with_the_last_lines(printing, client):
    client.force_login(person("lin", "viewer", project="nlp-lab"))
    page = client.get(f"/workloads/{printing.workload_id}").content.decode()
    assert "<pre>one\ntwo\n</pre>" in page
    for attempt in (printing.attempt, printing.attempt + 1):
        assert f'value="{attempt}-0"' in page
