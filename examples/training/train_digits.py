"""A training that can be interrupted at any moment and goes on exactly where it was.

It shows what a workload does to live well under Tidegate: it keeps to the slice that it is told,
saves aside and renames, marks each checkpoint by a line on its output, says on SIGTERM that it is
saved and leaves, and says on start what it resumed from.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy: threads of its own would crowd the neighbours

import numpy as np  # noqa: E402
from checkpoints import Checkpoints, Fenced  # noqa: E402
from classifier import Classifier, Digits, load_digits  # noqa: E402
from loaders import Loaders  # noqa: E402

_SLICE_S = 0.1  # an epoch's work is spread over its time in pieces of this length
_BATCH = 32
_SIGTERM_EXIT = 128 + signal.SIGTERM
_FENCED_EXIT = 3


@dataclass
class Progress:
    """What a resume must give back exactly."""

    epoch: int = 0
    elapsed_ms: int = 0
    best: float = 0.0

    @property
    def elapsed_text(self) -> str:
        """Elapsed training time in seconds, as it is printed and marked."""
        return f"{self.elapsed_ms / 1000:.1f}"

    def mark(self, **more: object) -> str:
        """Return the line that tells Tidegate of a checkpoint or a resume."""
        fields = {
            "step": self.epoch,
            "epoch": self.epoch,
            "elapsed_s": float(self.elapsed_text),
            "best": round(self.best, 4),
        }
        return "TIDEGATE " + json.dumps({**more, **fields})


class Interruption:
    """Notes SIGTERM. A second one changes nothing: what is under way is finished first."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, _signum: int, _frame: object) -> None:
        self.asked = True


class Training:
    """One attempt: resumes, trains, saves, leaves when asked to."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._interruption = Interruption()
        self._digits: Digits = load_digits()
        self._classifier = Classifier()
        self._progress = Progress()
        self._saved_epoch = 0
        self._checkpoints = self._open_checkpoints()
        self._loaders = Loaders(options.workers, rows=len(self._digits.train_x))

    def run(self) -> int:
        """Train to the last epoch, or to the signal; return the exit code."""
        self._resume()
        while self._progress.epoch < self._options.epochs:
            if not self._train_epoch():
                return self._leave()
            if self._progress.epoch % self._options.checkpoint_every == 0:
                self._save()
        self._save()
        self._loaders.close()
        say(f">>> finished {self._options.epochs} epochs, best_acc={self._progress.best:.4f}")
        return 0

    def _open_checkpoints(self) -> Checkpoints | None:
        directory = self._options.checkpoint_dir
        if self._options.no_checkpoint or directory is None:
            say(">>> no checkpoints: an interruption loses all")
            return None
        attempt = os.environ.get("TIDEGATE_REPLICA", "0-0").rpartition("-")[2]
        return Checkpoints(Path(directory), attempt=int(attempt))

    def _resume(self) -> None:
        found = self._checkpoints.load() if self._checkpoints else None
        if found is None:
            return
        payload, which = found
        facts = self._classifier.restore(payload)
        self._progress = Progress(
            epoch=int(facts["epoch"]), elapsed_ms=int(facts["elapsed_ms"]), best=facts["best"]
        )
        self._saved_epoch = self._progress.epoch
        if which == "before":
            say("!!! the newest checkpoint is damaged or missing: using the one before")
        say(
            f">>> RESUMED from checkpoint: epoch={self._progress.epoch} "
            f"elapsed={self._progress.elapsed_text}s best_acc={self._progress.best:.4f}"
        )
        print(self._progress.mark(resumed=True), flush=True)

    def _train_epoch(self) -> bool:
        """Train one epoch at its pace; False where the signal came before its end."""
        options, began_s = self._options, time.monotonic()
        order = self._loaders.order_of(self._progress.epoch + 1)
        steps = options.passes * (len(order) // _BATCH)
        slices = max(int(options.epoch_seconds / _SLICE_S), 1)
        loss, done = 0.0, 0
        for piece in range(1, slices + 1):
            while done < steps * piece // slices:
                rows = order[done * _BATCH % (len(order) - _BATCH) :][:_BATCH]
                loss += self._step(rows)
                done += 1
            if self._interruption.asked:
                return False
            time.sleep(max(began_s + options.epoch_seconds * piece / slices - time.monotonic(), 0))
        self._finish_epoch(loss=loss / steps, elapsed_ms=int((time.monotonic() - began_s) * 1000))
        return True

    def _step(self, rows: np.ndarray) -> float:
        x, y = self._digits.train_x[rows], self._digits.train_y[rows]
        return self._classifier.step(x, y, rate=self._options.rate)

    def _finish_epoch(self, *, loss: float, elapsed_ms: int) -> None:
        progress, total = self._progress, self._options.epochs
        accuracy = self._classifier.accuracy(self._digits.test_x, self._digits.test_y)
        progress.epoch += 1
        progress.elapsed_ms += elapsed_ms
        progress.best = max(progress.best, accuracy)
        report = {
            "progress": True,
            "step": progress.epoch,
            "total": total,
            "epoch": progress.epoch,
            "metrics": {"loss": round(loss, 4), "test_acc": round(accuracy, 4)},
        }
        print("TIDEGATE " + json.dumps(report), flush=True)
        say(
            f"epoch {progress.epoch:>{len(str(total))}}/{total} loss={loss:.4f} "
            f"test_acc={accuracy:.4f} best={progress.best:.4f} "
            f"cum_train_time={progress.elapsed_text}s"
        )

    def _save(self) -> None:
        progress = self._progress
        if self._checkpoints is None or progress.epoch == self._saved_epoch:
            return
        payload = self._classifier.dump(
            epoch=progress.epoch, elapsed_ms=progress.elapsed_ms, best=progress.best
        )
        try:
            size = self._checkpoints.save(payload, slow_s=self._options.save_seconds)
        except OSError as error:
            say(f"!!! epoch {progress.epoch} not saved ({error}); epoch {self._saved_epoch} stays")
            print(progress.mark(checkpoint=False, error=str(error)), flush=True)
            return
        self._saved_epoch = progress.epoch
        print(progress.mark(checkpoint=True, bytes=size), flush=True)

    def _leave(self) -> int:
        """Save what is whole, say so and go. The unfinished epoch is not part of it."""
        self._save()
        self._loaders.close()
        if self._checkpoints is None:
            say("!!! received SIGTERM (preempted) - nothing is saved")
        elif self._saved_epoch == 0:
            say("!!! received SIGTERM (preempted) - no epoch was finished yet")
        else:
            say("!!! received SIGTERM (preempted) - latest checkpoint is already on disk")
        return _SIGTERM_EXIT


def say(text: str) -> None:
    """Print a line with the time before it, at once."""
    print(time.strftime("[%H:%M:%S] ") + text, flush=True)


def describe_slice() -> str:
    """Return what this process has been given, which is all that it sees."""
    milli = int(os.environ.get("TIDEGATE_GPU_MILLI", "0"))
    total_mib = os.environ.get("TIDEGATE_GPU_MEMORY_MIB", "0")
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    kind = "virtual device" if "TIDEGATE_VIRTUAL_DEVICES" in os.environ else "device"
    return f">>> {kind} {devices or 'none'}: total memory {total_mib} MiB, share {milli / 1000:.3f}"


def hog(mib: int) -> None:
    """Take memory in small steps, as a model that grows does; for trying the wall."""
    held = []
    for taken in range(1, mib + 1):
        held.append(np.ones(2**17))  # 1 MiB, every page written
        if taken % 64 == 0:
            say(f">>> holding {taken} MiB")
        time.sleep(0.005)


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3000)
    parser.add_argument("--epoch-seconds", type=float, default=3.0, help="the pace")
    parser.add_argument("--passes", type=int, default=20, help="over the data, an epoch")
    parser.add_argument("--rate", type=float, default=0.0004, help="of learning")
    parser.add_argument("--checkpoint-every", type=int, default=1, help="in epochs")
    parser.add_argument("--checkpoint-dir", default=os.environ.get("CHECKPOINT_DIR"))
    parser.add_argument("--no-checkpoint", action="store_true")
    parser.add_argument("--save-seconds", type=float, default=0.0, help="stretch saving")
    parser.add_argument("--workers", type=int, default=0, help="loader processes")
    parser.add_argument("--hog-mib", type=int, default=0, help="take this much memory first")
    return parser.parse_args()


def main() -> int:
    """Run one attempt."""
    options = read_options()
    say(describe_slice())
    try:
        training = Training(options)
        if options.hog_mib:
            hog(options.hog_mib)
        return training.run()
    except Fenced as fenced:
        say(f"!!! {fenced}: leaving the checkpoints to it")
        return _FENCED_EXIT


if __name__ == "__main__":
    sys.exit(main())
