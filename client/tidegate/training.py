"""What training code says to Tidegate: how far it is, what it has saved, and how it leaves when asked to.

One file of the standard library: install the client, or copy this file beside your code.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal, TextIO

#: Reports closer than this become one.
EVERY_S = 0.5
HTTP_TIMEOUT_S = 2.0
#: What a workload ends with that was asked to: it will be started again.
ASKED_TO_LEAVE = 128 + signal.SIGTERM
Facts = Mapping[str, Any]


class Run:
    """One attempt of a training. Outside of Tidegate it prints the same lines and does nothing else.

    ``by="http"`` sends reports to the server instead of printing them, where it has told its address.
    """

    def __init__(
        self,
        *,
        total: int | None = None,
        by: Literal["line", "http"] = "line",
        output: TextIO | None = None,
    ) -> None:
        self.total = total
        #: SIGTERM has come: save and leave.
        self.asked = False
        self._output = output
        self._url = os.environ.get("TIDEGATE_PROGRESS_URL", "") if by == "http" else ""
        self._token = os.environ.get("TIDEGATE_PROGRESS_TOKEN", "")
        self.is_first = os.environ.get("RANK", "0") == "0"
        self._waiting: dict[str, Any] = {}
        self._told_s = float("-inf")
        self._epoch: int | None = None
        self._before: Any = None

    def __enter__(self) -> Run:
        """Note SIGTERM from now on instead of ending by it."""
        self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Tell what was not told yet; SIGTERM is as before."""
        self._tell()
        signal.signal(signal.SIGTERM, self._before)

    # --- What is said -------------------------------------------------------------------------

    def report(
        self, *, step: int | None = None, epoch: int | None = None, **metrics: object
    ) -> None:
        """Say how far it is, and numbers such as ``loss=0.31``; what is no number is left out."""
        told = {"step": step, "epoch": epoch if epoch is not None else self._epoch}
        self._waiting |= {name: value for name, value in told.items() if value is not None}
        found = numbers(metrics)
        if found:
            self._waiting["metrics"] = {**self._waiting.get("metrics", {}), **found}
        if time.monotonic() - self._told_s >= EVERY_S:
            self._tell()

    def saved(self, **facts: Any) -> None:
        """Say that a checkpoint is complete, and what it holds, such as ``epoch=21, best=0.82``."""
        self._tell()
        self._mark({"checkpoint": True, **facts})

    def not_saved(self, error: object) -> None:
        """Say that a save failed. The checkpoint before stays the last."""
        self._mark({"checkpoint": False, "error": str(error)})

    def resumed(self, **facts: Any) -> None:
        """Say from what it resumes: the facts that were told with the checkpoint, to be compared."""
        self._mark({"resumed": True, **facts})

    # --- The loop ------------------------------------------------------------------------------

    def epochs(
        self,
        total: int,
        *,
        resume: Callable[[], Facts | None] | None = None,
        save: Callable[[int], Facts | None] | None = None,
        every: int = 1,
    ) -> Iterator[int]:
        """Yield the epochs that are left: resume before, save after each ``every``th, leave when asked.

        ``save(epoch)`` writes a checkpoint and may return facts of it; ``resume()`` reads the last one and
        returns its facts with its ``epoch``, or None where there is none.
        """
        self.total = total
        facts = resume() if resume else None
        if facts:
            self.resumed(**facts)
        for epoch in range(int(facts["epoch"]) + 1 if facts else 1, total + 1):
            self._epoch = epoch
            yield epoch
            self.report(step=epoch)
            if save and (epoch % every == 0 or epoch == total or self.asked):
                self._save(save, epoch)
            if self.asked:
                self.leave()

    def leave(self) -> None:
        """End the process in the way that lets it be started again."""
        self._tell()
        sys.exit(ASKED_TO_LEAVE)

    def _save(self, save: Callable[[int], Facts | None], epoch: int) -> None:
        try:
            facts = save(epoch)
        except OSError as error:
            self.not_saved(error)
        else:
            self.saved(**{**(facts or {}), "epoch": epoch})

    # --- How it is said ------------------------------------------------------------------------

    def _tell(self) -> None:
        told, self._waiting = self._waiting, {}
        if not told:
            return
        self._told_s = time.monotonic()
        if self.total:
            told["total"] = self.total
        if not self._url:
            self._mark({"progress": True, **told})
        elif self.is_first:
            self._post(told)

    def _mark(self, fields: Facts) -> None:
        if self.is_first:
            print("TIDEGATE " + json.dumps(fields), file=self._output or sys.stdout, flush=True)

    def _post(self, told: Facts) -> None:
        request = urllib.request.Request(
            self._url,
            data=json.dumps(told).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        # Work goes on where a report is not taken.
        with suppress(OSError), urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_S):
            pass

    def _note(self, _signum: int, _frame: FrameType | None) -> None:
        self.asked = True


def checkpoint(name: str) -> Path:
    """Return the path of a checkpoint in the folder that outlives interruptions."""
    return Path(os.environ.get("CHECKPOINT_DIR", ".")) / name


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a kill at any moment leaves the old one or the new one, never half of one."""
    aside = path.with_name(f"{path.name}.writing")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def numbers(given: Mapping[str, object]) -> dict[str, float]:
    """Return what of it is a finite number, also in a tensor of one element."""
    found = {}
    for name, value in given.items():
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, RuntimeError, OverflowError):
            continue
        if math.isfinite(number):
            found[name] = number
    return found


def _metrics(given: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers of it that do not say how far it is: those are told on their own."""
    return {name: each for name, each in numbers(given).items() if name not in ("step", "epoch")}


class _Quiet:
    """Answers every other hook of a trainer with nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("on_", "setup", "teardown")):
            return lambda *_given, **_named: None
        raise AttributeError(name)


class LightningCallback(_Quiet):
    """For PyTorch Lightning: ``Trainer(callbacks=[LightningCallback(run)])``.

    It saves ``last.ckpt`` after each epoch and when it is asked to leave; give
    ``trainer.fit(model, ckpt_path=callback.resume_path)``.
    """

    state_key = _legacy_state_key = "tidegate"

    def __init__(self, run: Run, *, path: Path | None = None) -> None:
        self._run = run
        self._path = path or checkpoint("last.ckpt")

    @property
    def resume_path(self) -> str | None:
        """Return the last checkpoint, or None where there is none."""
        return str(self._path) if self._path.exists() else None

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: all is in the trainer's own checkpoint."""
        return {}

    def load_state_dict(self, state: Facts) -> None:
        """Take nothing back."""

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Say from what it resumes."""
        steps = getattr(trainer, "estimated_stepping_batches", 0)
        if isinstance(steps, int) and steps > 0:
            self._run.total = steps
        if trainer.global_step:
            self._run.resumed(step=trainer.global_step)

    def on_train_batch_end(self, trainer: Any, module: Any, *_given: Any) -> None:
        """Report, and stop where it is asked to."""
        self._run.report(
            step=trainer.global_step,
            epoch=trainer.current_epoch,
            **_metrics(trainer.callback_metrics),
        )
        if self._run.asked:
            self._save(trainer)
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        """Save."""
        if not self._run.asked:
            self._save(trainer)

    def on_fit_end(self, trainer: Any, module: Any) -> None:
        """Leave in the way that lets it be started again."""
        if self._run.asked:
            self._run.leave()

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        """Leave so, too, where Lightning ends by itself on SIGTERM: its own way looks like success."""
        if self._run.asked and isinstance(exception, SystemExit):
            self._run.leave()

    def _save(self, trainer: Any) -> None:
        aside = self._path.with_name("writing.ckpt")
        try:
            trainer.save_checkpoint(str(aside))
            if self._run.is_first:
                aside.replace(self._path)
        except OSError as error:
            self._run.not_saved(error)
        else:
            self._run.saved(step=trainer.global_step)


class HuggingFaceCallback(_Quiet):
    """For the Hugging Face Trainer: ``Trainer(callbacks=[HuggingFaceCallback(run)])``.

    It saves by the trainer's own settings, and when it is asked to leave. Let ``output_dir`` be
    ``checkpoint("hf")`` and resume by ``trainer.train(resume_from_checkpoint=get_last_checkpoint(...))``.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def on_train_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Say from what it resumes."""
        self._run.total = state.max_steps
        if state.global_step:
            self._run.resumed(step=state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Facts | None = None, **_more: Any
    ) -> None:
        """Report."""
        epoch = None if state.epoch is None else int(state.epoch)
        self._run.report(step=state.global_step, epoch=epoch, **_metrics(logs or {}))

    def on_step_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Save and stop where it is asked to."""
        if self._run.asked:
            control.should_save = True
            control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Say that it has saved."""
        self._run.saved(step=state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Leave in the way that lets it be started again."""
        if self._run.asked:
            self._run.leave()
