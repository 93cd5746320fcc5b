"""One service at the gateway: who waits for it, who is at which replica, and whose turn is next."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.balance import choose
from gateway.clocks import CostClock, DemandClock
from gateway.errors import NothingCameUp, TookTooLong, WaitingRoomFull
from gateway.slots import Slots
from scheduler.queries.routes import Endpoint, Route

log = logging.getLogger(__name__)

#: How long a replica that refused a connection gets no request.
SUSPECT_S = 1.0
#: How often the head of the line looks again for a slot that another process may have given back.
LOOK_AGAIN_S = 0.05
#: The next one's turn comes when the one before has sent its head, or after this long.
TURN_S = 1.0
RETRY_AFTER_S = 5
RETRY_AFTER_FAILURE_S = 60


def now_us() -> int:
    """Return microseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1000


def monotonic_us() -> int:
    """Return microseconds to measure lengths of time with: no step of the clock moves it."""
    return time.monotonic_ns() // 1000


@dataclass(slots=True, eq=False, kw_only=True)
class Seat:
    """A place at a replica, held until it is given back."""

    endpoint: Endpoint
    member: str | None
    cost_entry: int


@dataclass(slots=True, eq=False)
class Ticket:
    """A request that waits for its turn."""

    turn: asyncio.Future[Seat] | None = None
    #: Only where it stands in line is there somebody who waits for it.
    sent: asyncio.Event | None = None

    def tell_sent(self) -> None:
        """Say that its head is sent, or that it has gone: the next one's turn."""
        if self.sent is not None:
            self.sent.set()


class Desk:
    """Gives out seats at a service's replicas: at once where one is free, else in order."""

    def __init__(self, *, route: Route, slots: Slots, wake: Callable[[int], None]) -> None:
        self.route = route
        self._endpoints = {endpoint.replica_id: endpoint for endpoint in route.endpoints}
        self.demand = DemandClock(now_us=now_us())
        self.in_flight: dict[int, int] = defaultdict(int)
        #: Whether the replicas know how to be asked for a stream's usage.
        self.tells_usage = True
        #: What other gateway processes have at each replica, as last heard.
        self.elsewhere: Mapping[int, int] = {}
        self._slots = slots
        self._wake = wake
        self._costs: dict[int, CostClock] = defaultdict(CostClock)
        self._line: deque[Ticket] = deque()
        self._changed = asyncio.Event()
        self._usher: asyncio.Task[None] | None = None
        self._suspects: dict[int, float] = {}
        self._last_chosen = 0

    @property
    def waiting(self) -> int:
        """Return how many wait."""
        return len(self._line)

    def update(self, route: Route) -> None:
        """Take in where the replicas are now."""
        self.route = route
        self._endpoints = {endpoint.replica_id: endpoint for endpoint in route.endpoints}
        present = {*self._endpoints, *self.in_flight}
        for replica_id in [each for each in self._costs if each not in present]:
            del self._costs[replica_id]
        self._changed.set()
        self._call_usher()

    def close(self) -> None:
        """Stop giving out seats."""
        if self._usher is not None:
            self._usher.cancel()

    async def sit(self, ticket: Ticket, *, deadline: float, again: bool = False) -> Seat:
        """Return a seat; ``again``: one that was refused at a replica goes to the head of the line.

        Raises:
            WaitingRoomFull, NothingCameUp, TookTooLong.
        """
        self._refuse_what_is_hopeless()
        if not self._line and not self.route.hard_limit:
            seat = self._try_locally()
            if seat is not None:
                return seat
        if len(self._line) >= self.route.waiting_limit:
            raise WaitingRoomFull(
                f"{self.route.waiting_limit} requests wait for {self.route.name} already.",
                retry_after_s=RETRY_AFTER_S,
            )
        return await self._stand_in_line(ticket, deadline, again)

    def leave(self, seat: Seat) -> int:
        """Give a seat back; returns what the time at the replica cost, in billionths."""
        replica_id = seat.endpoint.replica_id
        self.in_flight[replica_id] -= 1
        if not self.in_flight[replica_id]:
            del self.in_flight[replica_id]
        cost_nano = self._costs[replica_id].leave(
            seat.cost_entry, now_us=monotonic_us(), nano_per_s=seat.endpoint.cost_nano_per_s
        )
        if seat.member is not None:
            self._slots.free_soon(replica_id, seat.member, then=self._changed.set)
        self._changed.set()
        return cost_nano

    def suspect(self, replica_id: int) -> None:
        """Note that a replica took no connection."""
        self._suspects[replica_id] = time.monotonic() + SUSPECT_S

    # -- the line ------------------------------------------------------------------------------------

    async def _stand_in_line(self, ticket: Ticket, deadline: float, again: bool) -> Seat:  # noqa: FBT001
        turn = ticket.turn = asyncio.get_running_loop().create_future()
        ticket.sent = asyncio.Event()
        if again:
            self._line.appendleft(ticket)
        else:
            self._line.append(ticket)
        self._changed.set()
        self._call_usher()
        if not self.route.endpoints:
            self._wake(self.route.workload_id)
        seat: Seat | None = None
        try:
            async with asyncio.timeout_at(deadline):
                seat = await turn
            return seat
        except TimeoutError:
            raise self._too_late() from None
        finally:
            if seat is None:
                self._step_out(ticket)

    def _call_usher(self) -> None:
        """See that somebody serves the line, also where the last usher came to grief."""
        if self._line and (self._usher is None or self._usher.done()):
            self._usher = asyncio.create_task(self._serve_line())
            self._usher.add_done_callback(_say_how_it_ended)

    def _step_out(self, ticket: Ticket) -> None:
        """Leave the line; a seat that was given and not taken goes back."""
        if ticket in self._line:
            self._line.remove(ticket)
            self._changed.set()
        turn = ticket.turn
        if turn is None:
            return
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            self.leave(turn.result())
        turn.cancel()

    async def _serve_line(self) -> None:
        """Give seats to the line, strictly in order, one when the one before has sent its head."""
        while self._line:
            self._changed.clear()
            if self.route.failed:
                self._send_all_home()
                return
            seat = await self._try()
            if seat is None:
                await self._wait_for_change()
                continue
            if not self._line:
                self.leave(seat)
                return
            ticket = self._line.popleft()
            if ticket.turn is None or ticket.sent is None or ticket.turn.done():
                self.leave(seat)
                continue
            ticket.turn.set_result(seat)
            await _wait(ticket.sent, TURN_S)

    async def _wait_for_change(self) -> None:
        shared = bool(self.route.hard_limit or self._suspects)
        await _wait(self._changed, LOOK_AGAIN_S if shared else None)

    def _send_all_home(self) -> None:
        while self._line:
            ticket = self._line.popleft()
            if ticket.turn is not None and not ticket.turn.done():
                ticket.turn.set_exception(self._nothing_came_up())

    # -- seats ---------------------------------------------------------------------------------------

    async def _try(self) -> Seat | None:
        if not self.route.hard_limit:
            return self._try_locally()
        ids = self._open_ids()
        if self._choose(ids) is None:
            return None
        taken = await self._slots.take(ids, limit=self.route.hard_limit)
        if taken is None:
            return None
        replica_id, member = taken
        endpoint = self._endpoints.get(replica_id)
        if endpoint is None:  # it left while the slot was taken
            self._slots.free_soon(replica_id, member, then=self._changed.set)
            return None
        return self._seat(endpoint, member)

    def _try_locally(self) -> Seat | None:
        chosen = self._choose(self._open_ids())
        return None if chosen is None else self._seat(self._endpoints[chosen], None)

    def _choose(self, ids: list[int]) -> int | None:
        if len(ids) == 1 and not self.route.hard_limit:
            return ids[0]
        # Under a hard limit what others hold is counted where slots are taken.
        elsewhere = {} if self.route.hard_limit else self.elsewhere
        return choose(
            replica_ids=ids,
            in_flight={n: self.in_flight.get(n, 0) + elsewhere.get(n, 0) for n in ids},
            limit=self.route.hard_limit,
            turn=self._last_chosen,
        )

    def _open_ids(self) -> list[int]:
        if self._suspects:
            now = time.monotonic()
            self._suspects = {each: until for each, until in self._suspects.items() if until > now}
        return [each for each in self._endpoints if each not in self._suspects]

    def _seat(self, endpoint: Endpoint, member: str | None) -> Seat:
        self._last_chosen = endpoint.replica_id
        self.in_flight[endpoint.replica_id] += 1
        entry = self._costs[endpoint.replica_id].enter(
            now_us=monotonic_us(), nano_per_s=endpoint.cost_nano_per_s
        )
        return Seat(endpoint=endpoint, member=member, cost_entry=entry)

    # -- refusals ------------------------------------------------------------------------------------

    def _refuse_what_is_hopeless(self) -> None:
        if self.route.failed and not self.route.endpoints:
            raise self._nothing_came_up()

    def _nothing_came_up(self) -> NothingCameUp:
        after_s = RETRY_AFTER_FAILURE_S if self.route.failed else RETRY_AFTER_S
        return NothingCameUp(
            f"No replica of {self.route.name} answers. {self.route.why}".strip(),
            retry_after_s=after_s,
        )

    def _too_late(self) -> NothingCameUp | TookTooLong:
        if not self.route.endpoints:
            return self._nothing_came_up()
        return TookTooLong(
            f"All replicas of {self.route.name} were busy for {self.route.request_timeout_s} s."
        )


def _say_how_it_ended(usher: asyncio.Task[None]) -> None:
    if not usher.cancelled() and usher.exception() is not None:
        log.error("gateway.usher.failed", exc_info=usher.exception())


async def _wait(event: asyncio.Event, timeout_s: float | None) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
