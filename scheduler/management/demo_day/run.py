"""Carries the day out: sets the number of callers by the hour, hands trainings in, says how far it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import httpx
from django.db import DatabaseError, connection

from scheduler import models
from scheduler.core.autoscale import Metric
from scheduler.management.demo_day import work
from scheduler.management.demo_day.callers import TIMEOUT, Counts, Crowd
from scheduler.management.demo_day.hours import busy_percent, time_of_day
from scheduler.management.verify.stage import NotRunning, find_address
from scheduler.operations import demo_days, gateway_keys
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import Refused
from scheduler.queries.demo_days import find_services

log = logging.getLogger(__name__)
Result = TypeVar("Result")

STEP_S = 1.0
REFILL_EVERY_S = 5.0
#: The product may be away for so long, such as for a restart; then this process ends, and the tick
#: begins another one where the day is still wanted.
AWAY_S = 90.0
KEY_LIVES = timedelta(days=1)


@dataclass(slots=True)
class Day:
    """One process's part in the day."""

    day_s: int
    say: Callable[[str], None]
    counts: Counts = field(default_factory=Counts)
    _crowds: dict[int, Crowd] = field(default_factory=dict)
    _keys: dict[int, str] = field(default_factory=dict)
    _filling: work.Filling = field(default_factory=work.Filling)
    _client: httpx.AsyncClient | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        """Ask it to end; may be called from a signal handler of its loop."""
        self._stop.set()

    async def run(self, *, passed_s: float = 0.0) -> None:
        """Go on from ``passed_s`` until nobody wants it, it is told to end, or the product is gone."""
        began = time.monotonic() - passed_s
        answered_at = time.monotonic()
        refilled_at = 0.0
        said_hour = -1
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="demo-day") as thread:
            try:
                while not self._stop.is_set():
                    now = time.monotonic()
                    hour = time_of_day(passed_s=now - began, day_s=self.day_s)
                    try:
                        if not await _in(thread, partial(self._say, hour.days, hour.minute)):
                            break
                        await self._set_crowds(thread, hour.minute)
                        if now - refilled_at >= REFILL_EVERY_S:
                            await _in(thread, partial(self._filling.refill, now=_now()))
                            refilled_at = now
                        if not self.counts.away:
                            answered_at = now
                    except (DatabaseError, NotRunning):
                        log.warning("demo_day.product.away", exc_info=True)
                    if time.monotonic() - answered_at > AWAY_S:
                        self.say("The product has been away for too long.")
                        break
                    if hour.minute // 60 != said_hour:
                        said_hour = hour.minute // 60
                        self.say(self._line(hour.days, said_hour))
                    await self._pause()
            finally:
                for crowd in self._crowds.values():
                    await crowd.leave()
                if self._client is not None:
                    await self._client.aclose()
                await _in(thread, _close)

    def _line(self, days: int, hour: int) -> str:
        crowds = self._crowds.values()
        return (
            f"day {days + 1}, {hour:02}:00  {sum(crowd.size for crowd in crowds)} callers, "
            f"{self.counts.requests} requests, {self.counts.errors} errors"
        )

    def _say(self, days: int, minute: int) -> bool:
        trouble = "The product does not answer." if self.counts.away else ""
        progress = demo_days.Progress(
            days=days,
            minute=minute,
            requests=self.counts.requests,
            errors=self.counts.errors,
            trouble=trouble,
        )
        return demo_days.say(progress=progress, now=_now())

    async def _set_crowds(self, thread: ThreadPoolExecutor, minute: int) -> None:
        services = await _in(thread, find_services)
        url = await _in(thread, _find_url)
        if self._client is None or str(self._client.base_url).rstrip("/") != url.rstrip("/"):
            await self._meet_at(url)
        assert self._client is not None
        for gone in set(self._crowds) - {service.pk for service in services}:
            await self._crowds.pop(gone).leave()
        for position, service in enumerate(services):
            crowd = self._crowds.get(service.pk)
            if crowd is None:
                key = await _in(thread, partial(self._key_for, service))
                crowd = self._crowds[service.pk] = Crowd(
                    client=self._client,
                    model=(service.service.model_names or [service.name])[0],
                    key=key,
                    embeds=service.service.metric == Metric.THROUGHPUT,
                    counts=self.counts,
                )
            percent = busy_percent(minute=minute, position=position)
            crowd.set_size(-(-_peak(service) * percent // 100))

    async def _meet_at(self, url: str) -> None:
        """Begin with a new address: the product was started again on another port."""
        for crowd in self._crowds.values():
            await crowd.leave()
        self._crowds.clear()
        if self._client is not None:
            await self._client.aclose()
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        self._client = httpx.AsyncClient(base_url=url, timeout=TIMEOUT, limits=limits)

    def _key_for(self, service: models.Workload) -> str:
        """Return the day's key to a service's project; its secret is in this process alone."""
        if service.project_id not in self._keys:
            made = gateway_keys.create_key(
                project_id=service.project_id,
                terms=gateway_keys.KeyTerms(name=demo_days.KEY_NAME, expires_at=_now() + KEY_LIVES),
                authority=SYSTEM,
                now=_now(),
            )
            self._keys[service.project_id] = made.secret
        return self._keys[service.project_id]

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(STEP_S):
                await self._stop.wait()
        except TimeoutError:
            pass


def clear() -> None:
    """Take away what a day has made, as far as it is still there."""
    try:
        work.clear(now=_now())
    except Refused:
        log.warning("demo_day.clear.refused", exc_info=True)  # it has gone meanwhile


def _peak(service: models.Workload) -> int:
    """Return the callers at the busiest hour: as many as make it want all that it may have."""
    settings = service.service
    each = settings.threshold * settings.target_percent * (service.max_replicas - 1)
    return -(-each // 100) + 1


def _find_url() -> str:
    try:
        return find_address()
    except NotRunning:
        url = demo_days.find().url
        if not url:
            raise
        return url


async def _in(thread: ThreadPoolExecutor, call: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(thread, call)


def _close() -> None:
    connection.close()  # looked up here: each thread has a connection of its own


def _now() -> datetime:
    return datetime.now(tz=UTC)
