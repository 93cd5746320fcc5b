"""B25 and the article's resume: the example training under the local engine, with real signals."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from scheduler.engines.base import EndCause, EnginePhase, LaunchSpec, ReplicaKey
from tests.engines.harness import (
    LocalHarness,
    find,
    launch,
    slice_of,
    spec,
    wait_ended,
    wait_for,
    wait_log,
)
from tests.engines.test_local_processes import marked

pytest.importorskip("sklearn")

TRAIN = Path(__file__).resolve().parents[2] / "examples" / "training" / "train_digits.py"
EPOCH = re.compile(
    r"\[\d\d:\d\d:\d\d\] epoch +(\d+)/\d+ loss=\d\.\d{4} test_acc=0\.\d{4} best=(0\.\d{4}) "
    r"cum_train_time=([\d.]+)s"
)


def training(*options: str, attempt: int = 1, **more) -> LaunchSpec:
    command = ("python", str(TRAIN), "--epoch-seconds", "0.2", *options)
    return spec(command, attempt=attempt, **more)


def epochs(text: str) -> list[tuple[int, str, str]]:
    return [(int(epoch), best, elapsed) for epoch, best, elapsed in EPOCH.findall(text)]


def log_of(local: LocalHarness, key: ReplicaKey) -> str:
    return local.engine.read_log(key, offset=0, limit_bytes=2**20).text


def checkpoint_dir(local: LocalHarness) -> Path:
    return local.data_dir / "engine" / "storage" / "workload-1" / "checkpoints"


def preempt(local: LocalHarness, key: ReplicaKey, *, grace_s: int = 30):
    local.engine.terminate(key, grace_s=grace_s, reason="preempt")
    return wait_ended(local, key)


def test_epoch_elapsed_and_best_after_the_resume_are_those_before(local: LocalHarness):
    # Given a training that has come to epoch 3
    first = launch(local, training())
    wait_for(local, first, lambda seen: seen.checkpoint_count >= 3)

    # When it is preempted
    ended = preempt(local, first)

    # Then it says that it is saved, and leaves by itself
    before = log_of(local, first)
    assert "!!! received SIGTERM (preempted) - latest checkpoint is already on disk" in before
    assert (ended.cause, ended.exit_code) == (EndCause.TERMINATED, 128 + signal.SIGTERM)

    # When it is started again
    second = launch(local, training(attempt=2, restart_count=1))
    wait_for(local, second, lambda seen: seen.checkpoint_count >= 1)

    # Then it resumed with the three values of its last line, and goes on with the next epoch
    epoch, best, elapsed = epochs(before)[-1]
    after = log_of(local, second)
    assert f">>> RESUMED from checkpoint: epoch={epoch} elapsed={elapsed}s best_acc={best}" in after
    assert epochs(after)[0][0] == epoch + 1
    resumed = wait_for(local, second, lambda seen: seen.resumed is not None).resumed
    assert (resumed.epoch, resumed.elapsed_s, resumed.best) == (
        ended.checkpoint.epoch,
        ended.checkpoint.elapsed_s,
        ended.checkpoint.best,
    )


def test_interrupted_or_not_it_learns_the_same(local: LocalHarness):
    # Given one training that runs through, and one that is interrupted on its way
    through = launch(local, training("--epochs", "8", replica=1))
    broken = launch(local, training("--epochs", "8", replica=2))
    wait_for(local, broken, lambda seen: seen.checkpoint_count >= 3)
    preempt(local, broken)
    again = launch(local, training("--epochs", "8", replica=2, attempt=2))

    # Then both end with the same accuracy, and with exit code 0
    ended = wait_ended(local, through), wait_ended(local, again)
    assert [seen.exit_code for seen in ended] == [0, 0]
    assert ended[0].checkpoint.best == ended[1].checkpoint.best
    assert ended[0].checkpoint.epoch == ended[1].checkpoint.epoch == 8


def test_it_sees_its_slice_as_the_total(local: LocalHarness):
    key = launch(local, training())
    text = wait_log(local, key, "epoch")
    assert "virtual device 0: total memory 4146 MiB, share 0.090" in text.splitlines()[0]


def test_killed_while_saving_it_goes_on_from_the_checkpoint_before(local: LocalHarness):
    # Given that epoch 1 is saved, and that saving takes 8 s, longer than the grace of 1 s
    first = launch(local, training("--epochs", "1"))
    wait_ended(local, first)
    slow = training("--save-seconds", "8", attempt=2)
    second = launch(local, slow)
    wait_log(local, second, "epoch    2/3000")

    # When it is preempted in the middle of saving epoch 2
    assert preempt(local, second, grace_s=1).signal == signal.SIGKILL

    # Then it continues from epoch 1: not from 0, and not with a crash
    third = launch(local, training(attempt=3))
    assert "RESUMED from checkpoint: epoch=1 " in wait_log(local, third, "RESUMED")


def test_with_time_enough_the_save_is_finished_and_a_second_signal_changes_nothing(
    local: LocalHarness,
):
    # Given that saving an epoch takes 1.5 s
    first = launch(local, training("--save-seconds", "1.5"))
    wait_log(local, first, "epoch    1/3000")

    # When two SIGTERMs come while it saves
    seen = find(local, first)
    os.kill(seen.pid, signal.SIGTERM)
    time.sleep(0.3)
    local.engine.terminate(first, grace_s=30, reason="preempt")

    # Then epoch 1 is saved, and is what it goes on from
    ended = wait_ended(local, first)
    assert ended.exit_code == 128 + signal.SIGTERM
    assert ended.checkpoint.epoch == 1
    second = launch(local, training(attempt=2))
    assert "RESUMED from checkpoint: epoch=1 " in wait_log(local, second, "RESUMED")


def test_a_save_that_fails_leaves_the_older_checkpoint_and_says_so(local: LocalHarness):
    # Given that epoch 1 is saved, and that nothing can be written any more
    first = launch(local, training("--epochs", "1"))
    wait_ended(local, first)
    (checkpoint_dir(local) / "writing-2").mkdir()  # what can't be opened can't be written

    # When it trains on
    second = launch(local, training(attempt=2))
    seen = wait_for(local, second, lambda seen: seen.checkpoint_error != "")

    # Then it runs on, the event says why, and epoch 1 is what is there
    assert seen.phase is EnginePhase.RUNNING
    assert "Is a directory" in seen.checkpoint_error
    assert "epoch 1 stays" in wait_log(local, second, "not saved")
    preempt(local, second)
    third = launch(local, training(attempt=3))
    assert "RESUMED from checkpoint: epoch=1 " in wait_log(local, third, "RESUMED")


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
def test_a_damaged_newest_file_falls_back_to_the_one_before(local: LocalHarness, damage: str):
    # Given two checkpoints, of which the newest is damaged
    first = launch(local, training("--epochs", "2"))
    wait_ended(local, first)
    newest = checkpoint_dir(local) / "newest.ckpt"
    content = newest.read_bytes()
    if damage == "gone":
        newest.unlink()
    else:
        half = content[: len(content) // 2]
        newest.write_bytes(half if damage == "cut" else half + b"\0" * len(half))

    # When it starts again
    second = launch(local, training(attempt=2))

    # Then it goes on from the one before, and says so
    text = wait_log(local, second, "RESUMED")
    assert "RESUMED from checkpoint: epoch=1 " in text
    assert "damaged or missing" in text


def test_without_checkpoints_it_says_that_nothing_is_saved(local: LocalHarness):
    key = launch(local, training("--no-checkpoint"))
    wait_log(local, key, "epoch    2/3000")
    preempt(local, key)
    assert "nothing is saved" in log_of(local, key)
    assert find(local, key).checkpoint is None


def test_an_older_attempt_can_not_write_over_a_later_one(local: LocalHarness):
    # Given a first attempt that lives on somewhere while a second has begun (B29)
    first = launch(local, training())
    wait_for(local, first, lambda seen: seen.checkpoint_count >= 1)
    second = launch(local, training(attempt=2))

    # Then the first leaves the checkpoints to it
    ended = wait_ended(local, first)
    assert ended.exit_code == 3
    assert "attempt 2 has begun" in log_of(local, first)
    assert find(local, second).phase is EnginePhase.RUNNING


def test_its_loaders_end_with_it(local: LocalHarness):
    # Given a training with two loader processes (B24)
    key = launch(local, training("--workers", "2"))
    wait_log(local, key, "epoch    2/3000")
    assert len(marked(local)) == 3

    # When its front is killed from outside
    os.kill(find(local, key).pid, signal.SIGKILL)

    # Then nothing of it is left once it has ended
    assert wait_ended(local, key).signal == signal.SIGKILL
    assert marked(local) == set()


def test_one_that_takes_more_than_its_slice_is_stopped(local: LocalHarness):
    key = launch(local, training("--hog-mib", "300", devices=slice_of(128)))
    seen = wait_ended(local, key)
    assert seen.cause is EndCause.OVER_MEMORY
    assert "total memory 128 MiB" in log_of(local, key)
