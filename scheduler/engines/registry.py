"""Engines by name. One object a process; the truth is with the engine, not in the object."""

from __future__ import annotations

from pathlib import Path

from scheduler.engines.base import Engine
from scheduler.engines.fake import FakeEngine
from scheduler.engines.local import LocalEngine

NAMES = ("local", "fake")


class UnknownEngine(ValueError):
    """There is no engine of this name."""


def make_engine(name: str, *, data_dir: Path) -> Engine:
    """Return the engine of that name, whose files lie under ``data_dir``.

    Raises:
        UnknownEngine: there is none.
    """
    match name:
        case "local":
            return LocalEngine(data_dir=data_dir)
        case "fake":
            return FakeEngine()
        case _:
            raise UnknownEngine(f"there is no engine {name!r}; there are {', '.join(NAMES)}")
