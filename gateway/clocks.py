"""Sums over time: demand second by second, and the cost of requests that share a replica."""

from __future__ import annotations

from scheduler.core.autoscale import SECOND_US, Bucket


class _Second:
    """A bucket that is still added to: three times for each request, so it is not made anew."""

    __slots__ = Bucket.__slots__

    def __init__(self) -> None:
        self.request_us = self.arrived = self.finished = self.latency_us = 0
        self.gauge_milli = self.gauges = 0

    def bucket(self) -> Bucket:
        return Bucket(**{name: getattr(self, name) for name in self.__slots__})


class DemandClock:
    """A service's requests in flight and waiting, as an exact sum for each second."""

    def __init__(self, *, now_us: int) -> None:
        self.level = 0
        self._at_us = now_us
        self._seconds: dict[int, _Second] = {}

    def change(self, by: int, *, now_us: int) -> None:
        """Note that so many more (or fewer) requests are here from now on."""
        self._run_to(now_us)
        self.level += by

    def arrive(self, *, now_us: int) -> None:
        """Count a request that came, and that it is here."""
        self.change(1, now_us=now_us)
        self._second(now_us // SECOND_US).arrived += 1

    def leave(self, *, now_us: int, latency_us: int | None) -> None:
        """Count a request that went; without a latency it was not answered."""
        self.change(-1, now_us=now_us)
        if latency_us is not None:
            second = self._second(now_us // SECOND_US)
            second.finished += 1
            second.latency_us += max(0, latency_us)

    def read_gauge(self, value_milli: int, *, now_us: int) -> None:
        """Note one reading of the service's own number."""
        second = self._second(now_us // SECOND_US)
        second.gauge_milli += value_milli
        second.gauges += 1

    def take(self, *, now_us: int) -> list[tuple[int, Bucket]]:
        """Return the whole seconds that passed and had demand, once."""
        self._run_to(now_us)
        whole = [second for second in self._seconds if second < now_us // SECOND_US]
        return [(second, self._seconds.pop(second).bucket()) for second in sorted(whole)]

    def _run_to(self, now_us: int) -> None:
        while self._at_us < now_us:
            second = self._at_us // SECOND_US
            until_us = min(now_us, (second + 1) * SECOND_US)
            if self.level:
                self._second(second).request_us += self.level * (until_us - self._at_us)
                self._at_us = until_us
            else:
                self._at_us = now_us

    def _second(self, number: int) -> _Second:
        known = self._seconds.get(number)
        if known is None:
            known = self._seconds[number] = _Second()
        return known


class CostClock:
    """What a replica's devices cost, shared in equal parts by the requests that it has in hand.

    The clock runs at the replica's price divided by its requests; a request costs what the clock
    moved while it was there. All of a busy second is paid once, and none of an idle one.
    """

    def __init__(self) -> None:
        self._at_us = 0
        self._count = 0
        self._nano = 0

    def enter(self, *, now_us: int, nano_per_s: int) -> int:
        """Add a request; returns the reading to hand in when it leaves."""
        self._run_to(now_us, nano_per_s)
        self._count += 1
        return self._nano

    def leave(self, entered: int, *, now_us: int, nano_per_s: int) -> int:
        """Remove a request; returns its cost in billionths of the currency."""
        self._run_to(now_us, nano_per_s)
        self._count -= 1
        return self._nano - entered

    def _run_to(self, now_us: int, nano_per_s: int) -> None:
        passed_us = max(0, now_us - self._at_us)
        if self._count:
            self._nano += nano_per_s * passed_us // (self._count * SECOND_US)
        self._at_us = now_us
