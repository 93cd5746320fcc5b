"""A time limit between two signs of life, for what gives thousands of them."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Patience:
    """Ends its block with TimeoutError when ``touch`` was not called for so long.

    ``asyncio.timeout`` would make a new timer at each sign of life. Here one timer looks, when its
    time has come, how long ago the last one was.
    """

    __slots__ = ("_due", "_late", "_length_s", "_loop", "_task", "_timer")

    def __init__(self, *, first_s: float, then_s: float) -> None:
        """Allow ``first_s`` until the first touch and ``then_s`` after each."""
        self._loop = asyncio.get_running_loop()
        self._length_s = then_s
        self._due = self._loop.time() + first_s
        self._late = False
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def touch(self) -> None:
        """Note a sign of life."""
        self._due = self._loop.time() + self._length_s

    def __enter__(self) -> Patience:
        self._task = asyncio.current_task()
        self._timer = self._loop.call_at(self._due, self._look)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        task, self._task = self._task, None
        if not self._late or task is None:
            return
        # The cancellation was this block's own, unless somebody else asked for one as well.
        if task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _look(self) -> None:
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._look)
        elif self._task is not None:
            self._late = True
            self._task.cancel()
