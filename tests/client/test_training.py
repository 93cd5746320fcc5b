"""What training code says by the client's helper, and how it leaves and resumes: real processes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidegate import training
from tidegate.training import HuggingFaceCallback, LightningCallback, Run

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "training" / "short.py"


def marks(text):
    return [
        json.loads(line.removeprefix("TIDEGATE "))
        for line in text.splitlines()
        if line.startswith("TIDEGATE ")
    ]


@pytest.fixture
def run():
    with Run(output=io.StringIO()) as run:
        yield run


def said(run):
    return marks(run._output.getvalue())


def test_the_example_uses_the_clients_own_file():
    assert EXAMPLE.with_name("tidegate_training.py").samefile(training.__file__)


def test_sigterm_saves_leaves_with_143_and_the_next_attempt_goes_on_equal(tmp_path):
    # Given the example, as a process
    def start():
        return subprocess.Popen(
            [sys.executable, str(EXAMPLE)],
            env={**os.environ, "CHECKPOINT_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )

    first = start()
    lines = [first.stdout.readline() for _ in range(4)]
    # When it is asked to leave
    first.send_signal(signal.SIGTERM)
    rest, _ = first.communicate(timeout=30)
    # Then it has saved, and ends in the way that lets it be started again
    assert first.returncode == 143
    last = [mark for mark in marks("".join(lines) + rest) if mark.get("checkpoint")][-1]
    # And the next attempt resumes with the same facts, at the next epoch
    second = start()
    resumed = marks(second.stdout.readline())[0]
    second.kill()
    second.communicate()
    assert resumed == {"resumed": True, "epoch": last["epoch"], "best": last["best"]}


def test_reports_that_are_close_become_one_and_leave_out_what_is_no_number(run):
    run.report(step=1, loss=0.5)
    run.report(step=2, loss=0.25, note="text", bad=float("nan"))
    run.report(step=3, accuracy=1)
    run._tell()
    assert said(run) == [
        {"progress": True, "step": 1, "metrics": {"loss": 0.5}},
        {"progress": True, "step": 3, "metrics": {"loss": 0.25, "accuracy": 1.0}},
    ]


def test_a_save_that_fails_is_said_and_the_loop_goes_on(run):
    def save(epoch):
        if epoch == 1:
            raise OSError("No space left on device")

    assert list(run.epochs(2, save=save)) == [1, 2]
    told = [mark for mark in said(run) if "checkpoint" in mark]
    assert told == [
        {"checkpoint": False, "error": "No space left on device"},
        {"checkpoint": True, "epoch": 2},
    ]


def test_only_the_first_rank_of_a_gang_speaks(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with Run(output=io.StringIO()) as run:
        run.report(step=1)
        run.saved(epoch=1)
    assert said(run) == []


def test_lightning_reports_saves_and_leaves(run, tmp_path):
    # Given a trainer that calls every hook of its callbacks by name, as Lightning does
    class Trainer(SimpleNamespace):
        def save_checkpoint(self, path):
            Path(path).write_text(str(self.global_step))

    trainer = Trainer(
        global_step=0, current_epoch=0, callback_metrics={"loss": 0.5, "step": 4.0},
        should_stop=False,
        estimated_stepping_batches=10,
    )  # fmt: skip
    callback = LightningCallback(run, path=tmp_path / "last.ckpt")
    assert callback.resume_path is None
    assert (callback.state_key, callback._legacy_state_key) == ("tidegate", "tidegate")
    for hook in ("setup", "on_fit_start", "on_sanity_check_start", "on_train_epoch_start"):
        getattr(callback, hook)(trainer, None)
    callback.on_train_start(trainer, None)
    # When SIGTERM comes in the middle of an epoch
    trainer.global_step = 4
    os.kill(os.getpid(), signal.SIGTERM)
    callback.on_train_batch_end(trainer, None, None, None, 3)
    # Then it saves, stops the trainer, and leaves with 143
    assert trainer.should_stop
    assert callback.resume_path == str(tmp_path / "last.ckpt")
    with pytest.raises(SystemExit) as left:
        callback.on_fit_end(trainer, None)
    assert left.value.code == 143
    # And so it does where Lightning, which has seen SIGTERM as well, ends by an exit without a code
    with pytest.raises(SystemExit) as left:
        callback.on_exception(trainer, None, SystemExit())
    assert left.value.code == 143
    assert said(run) == [
        {"progress": True, "step": 4, "epoch": 0, "metrics": {"loss": 0.5}, "total": 10},
        {"checkpoint": True, "step": 4},
    ]


def test_hugging_face_reports_saves_and_leaves(run):
    # Given a trainer's state and control, and its events called by name
    state = SimpleNamespace(max_steps=10, global_step=6, epoch=1.5)
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    callback = HuggingFaceCallback(run)
    callback.on_init_end(None, state, control)
    callback.on_train_begin(None, state, control, model=None)
    callback.on_log(None, state, control, logs={"loss": 0.5, "note": "text", "epoch": 1.5})
    # When it is asked to leave
    os.kill(os.getpid(), signal.SIGTERM)
    callback.on_step_end(None, state, control)
    assert control.should_save
    assert control.should_training_stop
    callback.on_save(None, state, control)
    with pytest.raises(SystemExit):
        callback.on_train_end(None, state, control)
    assert said(run) == [
        {"resumed": True, "step": 6},
        {"progress": True, "step": 6, "epoch": 1, "metrics": {"loss": 0.5}, "total": 10},
        {"checkpoint": True, "step": 6},
    ]
