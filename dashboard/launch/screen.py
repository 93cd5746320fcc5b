"""What a person sees while something is set up or started: a line a step, how it went, how long."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

LABEL_WIDTH = 46
STYLES = {"dim": "2", "bold": "1", "green": "32", "yellow": "33", "red": "31", "cyan": "36"}


class StepFailed(Exception):
    """A step of the set-up or the start ended badly; the message tells what to do about it."""


class Screen:
    """Writes lines to standard output and survives its closing."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._colored = self._live and "NO_COLOR" not in os.environ
        self._is_line_open = False

    def style(self, text: str, name: str) -> str:
        return f"\x1b[{STYLES[name]}m{text}\x1b[0m" if self._colored else text

    def say(self, text: str = "") -> None:
        """Print a line; a step's line under way makes room and comes back with its next tick."""
        cleared = "\r\x1b[K" if self._is_line_open else ""
        self._is_line_open = False
        self._write(f"{cleared}{text}\n")

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except (BrokenPipeError, ValueError):
            # Whoever read the output has gone; the product goes on without an audience.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115

    def note(self, text: str) -> None:
        self.say(f"  {self.style('·', 'cyan')} {text}")

    def warn(self, text: str) -> None:
        self.say(f"  {self.style('!', 'yellow')} {text}")

    @contextmanager
    def step(self, label: str) -> Iterator[Step]:
        """Print ``label`` and, when the block ends, how it went and how long it took."""
        step = Step(self, label)
        try:
            yield step
        except BaseException:
            step.finish(self.style("failed", "red"))
            raise
        step.finish(step.outcome or self.style("done", "green"))

    def show_progress(self, text: str) -> None:
        """Replace the current line, on a terminal."""
        if self._live:
            self._is_line_open = True
            self._write(f"\r\x1b[K{text}")


class Step:
    """One line under way."""

    def __init__(self, screen: Screen, label: str) -> None:
        self._screen = screen
        self._begun = time.monotonic()
        self._label = f"  {label} ".ljust(LABEL_WIDTH, ".")
        self.outcome = ""
        self.tick()

    def tick(self) -> None:
        """Show on a terminal that time passes."""
        self._screen.show_progress(f"{self._label} {self._elapsed_s():.0f} s")

    def finish(self, outcome: str) -> None:
        self._screen.say(f"{self._label} {outcome} ({self._elapsed_s():.1f} s)")

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._begun


def run_under(
    step: Step,
    argv: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    environment: Mapping[str, str],
    is_unwanted: Callable[[], bool] = lambda: False,
) -> str:
    """Run a program while ``step`` shows that time passes; return its standard output.

    Its error output goes to ``log``, the end of which is in the message where it fails.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w+b") as errors, open(f"{log}.out", "w+b") as output:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=cwd,
            env=dict(environment),
        )
        try:
            while _is_running(process):
                step.tick()
                if is_unwanted():
                    raise KeyboardInterrupt
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=10)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    Path(f"{log}.out").unlink()
    if process.returncode:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise StepFailed(
            "\n".join([f"{Path(argv[0]).name} ended with {process.returncode}:", *tail])
        )
    return text


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=0.2)
    except subprocess.TimeoutExpired:
        return True
    return False
