"""B46 and the marks: output of any size and kind, read back from a log of a stated size."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from scheduler.engines import logs
from scheduler.engines.base import EnginePhase, ReplicaKey
from scheduler.engines.shim import output
from scheduler.engines.shim.marks import FoundMark, MarkScanner
from scheduler.engines.shim.output import OutputLog
from tests.engines import harness
from tests.engines.harness import LocalHarness, find, launch, spec, wait_ended, wait_for, wait_log

MIB = 2**20


def folder_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def test_a_flood_keeps_begin_and_end_and_says_what_was_cut(local: LocalHarness):
    # Given a training that prints 200 MiB in one line, then bytes that are no text, and its end
    flood = (
        "import sys; out = sys.stdout.buffer\n"
        "out.write(b'the begin\\n')\n"
        "for _ in range(200): out.write(b'x' * 2**20)\n"
        "out.write(b'\\n\\xff\\xfe\\x80 not text\\nthe end\\n'); out.flush()\n"
    )
    key = launch(local, spec(("python", "-c", flood), log_limit_mib=2))
    seen = wait_ended(local, key)

    # Then it was not held up, the log keeps its size, and begin and end are there
    assert seen.exit_code == 0
    log_dir = local.data_dir / "engine" / "logs" / str(key)
    assert folder_bytes(log_dir) <= 2 * MIB
    first = local.engine.read_log(key, offset=0, limit_bytes=100)
    last = local.engine.read_log(key, offset=None, limit_bytes=100)
    assert first.text.startswith("the begin\nxxx")
    assert last.text.endswith("\ufffd\ufffd\ufffd not text\nthe end\n")

    # And what was cut is said, to the byte
    assert last.size_bytes == 200 * MIB + len("the begin\n") + len(
        "\n\xff\xfe\x80 not text\nthe end\n"
    )
    assert (first.cut_from, first.cut_to > 198 * MIB) == (1 * MIB, True)


def test_reading_inside_the_cut_goes_on_behind_it(tmp_path: Path):
    # Given 100 numbered lines of 10 bytes in a log of 200 bytes
    log = OutputLog(directory=str(tmp_path), limit_bytes=200)
    for number in range(100):
        log.write(b"line %04d\n" % number)
    log.close()

    # When one reads on from the begin
    chunk = logs.read_chunk(directory=str(tmp_path), offset=0, limit_bytes=1000)
    after = logs.read_chunk(directory=str(tmp_path), offset=chunk.next_offset, limit_bytes=1000)

    # Then the first half of the limit is the begin, the rest the end
    assert chunk.data == b"".join(b"line %04d\n" % number for number in range(10))
    assert (after.offset, after.next_offset) == (after.cut_to, 1000)
    assert after.data.endswith(b"line 0098\nline 0099\n")
    assert 75 <= len(after.data) <= 100
    assert folder_bytes(tmp_path) <= 200


def test_each_attempt_has_its_own_log(local: LocalHarness):
    for attempt in (1, 2, 3):
        key = launch(local, spec(("echo", f"attempt {attempt}"), attempt=attempt))
        wait_ended(local, key)
        local.engine.forget(key)
    read = local.engine.read_log
    said = [read(ReplicaKey(1, n), offset=0, limit_bytes=99).text for n in (1, 2, 3)]
    assert said == ["attempt 1\n", "attempt 2\n", "attempt 3\n"]


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """Give a volume of one MiB, where this machine lets us make one."""
    volume = tmp_path / "volume"
    volume.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=200", "tidegate-test", str(volume)],
        capture_output=True,
        check=False,
        timeout=30,
    )
    if made.returncode != 0:
        pytest.skip("this user may not mount a small volume to fill")
    try:
        yield volume
    finally:
        subprocess.run(["umount", "-l", str(volume)], check=True, timeout=30)


def test_on_a_full_volume_work_goes_on_and_its_end_is_kept(small_volume: Path):
    with harness.local(small_volume) as local:
        # Given a training that prints more than the volume holds, and then works on
        talk = "head -c 3000000 /dev/zero; while [ ! -e $HOME/go ]; do echo on; sleep 0.1; done"
        key = launch(local, spec(("sh", "-c", talk), log_limit_mib=50))

        # When the volume is full
        seen = wait_for(local, key, lambda seen: seen.log_disk_full, what="a full volume")

        # Then it still runs, and says so
        assert seen.phase is EnginePhase.RUNNING

        # And it can be ended, and its end is known, though nothing more can be written
        local.engine.terminate(key, grace_s=5, reason="by_user")
        assert wait_ended(local, key).signal == 15


# -- marks ------------------------------------------------------------------------------------

SAVED = (
    'TIDEGATE {"checkpoint": true, "epoch": 21, "elapsed_s": 63.0, "best": 0.8223, "bytes": 5120}'
)
RESUMED = 'TIDEGATE {"resumed": true, "epoch": 21, "elapsed_s": 63.0, "best": 0.8223}'


def test_marks_are_told_exactly_as_written(local: LocalHarness):
    # Given a training that resumes, saves, and then prints on
    key = launch(local, spec(("sh", "-c", f"echo '{RESUMED}'; echo '{SAVED}'; exec sleep 600")))

    # Then both are told, with the numbers that it wrote and no others
    seen = wait_for(local, key, lambda seen: seen.checkpoint is not None)
    assert (seen.checkpoint.epoch, seen.checkpoint.size_bytes) == (21, 5120)
    assert (seen.checkpoint.elapsed_s, seen.checkpoint.best) == (Decimal("63.0"), Decimal("0.8223"))
    assert seen.resumed.elapsed_s == seen.checkpoint.elapsed_s
    assert seen.resumed.best == seen.checkpoint.best
    assert seen.checkpoint_count == 1


def test_a_failed_save_is_told_until_one_succeeds(local: LocalHarness):
    failed = 'TIDEGATE {"checkpoint": false, "epoch": 22, "error": "No space left on device"}'
    wait = "while [ ! -e $HOME/go ]; do sleep 0.05; done"
    key = launch(
        local,
        spec(("sh", "-c", f"echo '{SAVED}'; echo '{failed}'; {wait}; echo '{SAVED}'; sleep 600")),
    )
    seen = wait_for(local, key, lambda seen: seen.checkpoint_error != "")
    assert seen.checkpoint_error == "No space left on device"
    assert seen.checkpoint.epoch == 21
    (local.data_dir / "engine" / "storage" / "workload-1" / "work" / "go").touch()
    assert wait_for(local, key, lambda seen: seen.checkpoint_error == "").checkpoint_count == 2


def test_progress_is_told_in_order_and_once_for_each_moment(local: LocalHarness):
    # Given a training that reports three times, the second right after the first
    first = 'TIDEGATE {"progress": true, "step": 1, "total": 9, "metrics": {"loss": 0.5, "a b": 1}}'
    second = 'TIDEGATE {"progress": true, "metrics": {"acc": 0.25, "bad": "x", "nan": NaN}}'
    third = 'TIDEGATE {"progress": true, "step": 2}'
    key = launch(
        local,
        spec(
            ("sh", "-c", f"printf '%s\\n' '{first}' '{second}'; sleep 0.4; echo '{third}'; exit 3")
        ),
    )
    # When it has ended
    wait_ended(local, key)
    # Then what was read of the first two is one report, and the third follows it
    both, last = local.engine.read_progress(key, after=0)
    assert (both.number, both.step, both.total) == (2, 1, 9)
    assert both.metrics == (("acc", 0.25), ("loss", 0.5))
    assert (last.number, last.step, last.metrics) == (3, 2, ())
    assert local.engine.read_progress(key, after=2) == (last,)
    assert local.engine.read_progress(key, after=3) == ()


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_a_mark_is_found_however_the_output_is_cut(size: int):
    text = f"epoch 21\n{SAVED}\n{'x' * 30_000}\n{RESUMED}\n".encode()
    scanner = MarkScanner()
    found = [m for at in range(0, len(text), size) for m in scanner.feed(text[at : at + size])]
    kinds = [mark.kind for mark in found if isinstance(mark, FoundMark)]
    assert kinds == ["checkpoint", "resumed"]


@pytest.mark.parametrize(
    "line",
    [
        "TIDEGATE {}",
        "TIDEGATE {not json}",
        'TIDEGATE {"checkpoint": 1}',
        'TIDEGATE {"checkpoint": "true"}',
        'say TIDEGATE {"checkpoint": true}',
        'TIDEGATE {"checkpoint": true',
        "TIDEGATE {" + '"a": [' * 5000,
        'TIDEGATE {"checkpoint": true, "pad": "' + "x" * 20_000 + '"}',
    ],
)
def test_what_only_looks_like_a_mark_is_output(line: str):
    assert MarkScanner().feed(line.encode() + b"\n\xff\n") == []


@pytest.mark.parametrize("best", ["NaN", "Infinity", "1e999", '"fast"', "true", "9" * 60])
def test_a_number_that_is_none_is_left_out(best: str):
    (mark,) = MarkScanner().feed(
        f'TIDEGATE {{"checkpoint": true, "epoch": -1, "step": 3, "best": {best}}}\n'.encode()
    )
    assert isinstance(mark, FoundMark)
    assert (mark.record["best"], mark.record["epoch"], mark.record["step"]) == (None, None, 3)


def test_a_reader_never_sees_half_a_state(local: LocalHarness):
    # Given a replica that marks as fast as it can
    marks = f"while :; do echo '{SAVED}'; done"
    key = launch(local, spec(("sh", "-c", marks), log_limit_mib=1))
    wait_log(local, key, "TIDEGATE")

    # When its state is read over and over
    counts = [find(local, key).checkpoint_count for _ in range(500)]

    # Then each reading is whole, and none goes back
    assert counts == sorted(counts)
    assert os.listdir(local.data_dir / "engine" / "replicas") == [str(key)]


# -- times and the mark of an end -----------------------------------------------------------------


def test_the_output_says_when_lines_came_and_where_it_was_asked_to_end(local: LocalHarness):
    # Given a training that prints, and prints again after it was asked to end
    talk = 'trap "echo saved; exit 3" TERM; printf begun; while :; do sleep 0.05; done'
    key = launch(local, spec(("sh", "-c", talk)))
    wait_log(local, key, "begun")
    # When it is reclaimed
    local.engine.terminate(key, grace_s=5, reason="reclaim")
    wait_ended(local, key)
    # Then the mark stands on a line of its own between the two, and all lines have a time
    chunk = local.engine.read_log(key, offset=0, limit_bytes=1000)
    assert chunk.text.startswith("begun\n--- SIGTERM, reclaim ---\n")
    assert chunk.text.endswith("saved\n")
    assert chunk.times[0][0] == 0
    assert all(before[1] <= after[1] for before, after in itertools.pairwise(chunk.times))


def test_times_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "_TIMES_APART_S", 0)
    monkeypatch.setattr(output, "_MOST_TIMES", 10)
    log = OutputLog(directory=str(tmp_path), limit_bytes=1_000)
    for _ in range(100):
        log.write(b"line\n")
    lines = (tmp_path / "times.txt").read_text().splitlines()
    assert len(lines) <= 11
    assert lines[0].startswith("0 ")
