"""Simulated time: replayed traces and the day, by figures worked out by hand and by what must hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command

from scheduler.management.simulation.day import simulate_day
from scheduler.management.simulation.replay import replay
from scheduler.management.simulation.traces import TraceRefused, read_trace

DATA = Path(__file__).parent.parent / "data"


def write_jobs(folder, rows):
    (folder / "philly_vc_nodes.csv").write_text("vc,nodes\na,1\nb,1\n")
    lines = ["job_id,submit_s,duration_s,gpus,vc", *rows]
    (folder / "jobs.csv").write_text("\n".join(lines) + "\n")
    return read_trace(folder / "jobs.csv", skip=0, limit=100)


def test_the_second_of_two_whole_nodes_waits_for_the_first(tmp_path):
    # Given one node of eight, and two jobs of eight for 100 s that come at 0 and at 10
    trace = write_jobs(tmp_path, ["0,0,100,8,a", "1,10,100,8,a"])
    found = replay(trace, nodes=1, spread=False, every_s=1)
    # Then the second waits 90 s, and all is over at 200
    assert (found.wait_p50_s, found.wait_p95_s, found.makespan_s) == (0, 90, 200)
    assert found.allocated_percent == 100
    assert found.never_started == 0


def test_a_queue_takes_its_guarantee_back_and_the_other_goes_on_later(tmp_path):
    # Given one node; a and b are guaranteed four devices each. a holds all eight, as two jobs of four
    trace = write_jobs(tmp_path, ["0,0,100,4,a", "1,0,100,4,a", "2,30,50,4,b"])
    # When b asks for its four at 30
    found = replay(trace, nodes=1, spread=False, every_s=1)
    # Then one of a's stops with 70 s to go, and goes on when b ends, from 80 to 150
    assert found.interruptions == 1
    assert found.wait_p95_s == 0
    assert found.makespan_s == 150


def test_work_that_is_too_large_for_the_pool_never_starts(tmp_path):
    trace = write_jobs(tmp_path, ["0,0,100,16,a", "1,0,100,1,b"])
    found = replay(trace, nodes=1, spread=False, every_s=1)
    assert found.never_started == 1
    assert found.makespan_s == 100


@pytest.mark.parametrize("name", ["philly_jobs.csv", "openb_replay.csv"])
def test_a_recorded_trace_is_played_to_its_end(name, capsys):
    call_command("replay", str(DATA / name), "--json")
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["policy"] for run in runs] == ["binpack", "spread"]
    for run in runs:
        assert run["never_started"] == 0
        assert 0 < run["allocated_percent"] <= 100
        assert run["wait_p50_s"] <= run["wait_p95_s"]


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TraceRefused, match="columns"):
        read_trace(path, skip=0, limit=1)
    with pytest.raises(TraceRefused, match="can't be read"):
        read_trace(tmp_path / "none.csv", skip=0, limit=1)


def test_what_is_lent_is_used_and_no_service_gets_less_for_it():
    lent, halves = simulate_day(name="lent", shared=True), simulate_day(name="halves", shared=False)
    assert max(halves.training_gpu) <= 16
    assert max(halves.inference_gpu) <= 16
    # Where both keep their halves, nothing is ever taken back.
    assert halves.interruptions == 0 < lent.interruptions
    assert lent.training_gpu_hours > halves.training_gpu_hours
    assert lent.idle_gpu_hours < halves.idle_gpu_hours
    both = zip(lent.inference_gpu, halves.inference_gpu, strict=True)
    assert all(first >= second for first, second in both)


def test_the_picture_needs_nothing_from_elsewhere(tmp_path):
    out = tmp_path / "day.html"
    call_command("simulate", "day", "--out", str(out))
    page = out.read_text(encoding="utf-8")
    assert "Plotly.newPlot" in page
    assert "<script src" not in page
    assert "<link" not in page
