"""What is looked after beside serving: callers that go away, and replicas that fall silent."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol

#: Between two looks. A caller that goes away is noticed after two at the latest, a silence after one.
LOOK_S = 0.05


class Listener(Protocol):
    """An exchange that hears its caller only once it is told to."""

    def listen(self) -> None:
        """Begin to hear whether the caller goes away, unless the exchange is over."""
        ...


class Watch:
    """One timer for all exchanges of a process, since thousands begin and end within one look.

    An answer that is there at once is given without having listened for its caller's leaving.
    """

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._new: list[Listener] = []
        self._older: list[Listener] = []
        self._patient: set[Patience] = set()

    def listen_later(self, exchange: Listener) -> None:
        """Have an exchange listen for its caller, if it lasts longer than a look."""
        self._new.append(exchange)
        self._begin()

    def add(self, patience: Patience) -> None:
        """Look after a block that may not be silent for too long."""
        self._patient.add(patience)
        self._begin()

    def discard(self, patience: Patience) -> None:
        """End looking after a block."""
        self._patient.discard(patience)

    def close(self) -> None:
        """End all looking."""
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for exchange in self._older:
            exchange.listen()
        self._older, self._new = self._new, []
        now = loop.time()
        for late in [each for each in self._patient if each.due <= now]:
            late.lose()
        if self._older or self._patient:
            self._begin()


class Patience:
    """Ends its block with TimeoutError when ``touch`` was not called for so long.

    ``asyncio.timeout`` would make a new timer at each sign of life, of which a stream gives thousands.
    """

    __slots__ = ("_late", "_length_s", "_loop", "_task", "_watch", "due")

    def __init__(self, watch: Watch, *, first_s: float, then_s: float) -> None:
        """Allow ``first_s`` until the first touch and ``then_s`` after each."""
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._length_s = then_s
        #: When it is lost, by the loop's clock.
        self.due = self._loop.time() + first_s
        self._late = False
        self._task: asyncio.Task[object] | None = None

    def touch(self) -> None:
        """Note a sign of life."""
        self.due = self._loop.time() + self._length_s

    def lose(self) -> None:
        """End the block, once."""
        self._watch.discard(self)
        if self._task is not None:
            self._late = True
            self._task.cancel()

    def __enter__(self) -> Patience:
        self._task = asyncio.current_task()
        self._watch.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watch.discard(self)
        task, self._task = self._task, None
        if not self._late or task is None:
            return
        # The cancellation was this block's own, unless somebody else asked for one as well.
        if task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error
