"""Counters in Redis that all processes share and that end by themselves: attempts, requests."""

from __future__ import annotations

import functools
import logging
import time

import redis
from django.conf import settings

log = logging.getLogger(__name__)


def count(*, key: str, window_s: int, by: int = 1) -> tuple[int, int]:
    """Add to a counter and return (its value, seconds until it ends).

    A counter lives for ``window_s`` from its first count. Where Redis is away nothing is counted and
    the value is 0: a limit that can't be checked refuses nobody.
    """
    try:
        pipe = _client(str(settings.REDIS_URL)).pipeline(transaction=True)
        pipe.set(_name(key), 0, ex=window_s, nx=True)
        pipe.incrby(_name(key), by)
        pipe.ttl(_name(key))
        _set, value, left_s = pipe.execute()
    except (redis.RedisError, OSError):
        log.warning("counting.away", exc_info=True)
        return 0, 0
    return int(value), max(1, int(left_s))


def remaining_s(*, key: str) -> int:
    """Return for how many seconds a mark that ``mark`` has set still stands; 0: it does not."""
    try:
        left_s = _client(str(settings.REDIS_URL)).ttl(_name(key))
    except (redis.RedisError, OSError):
        log.warning("counting.away", exc_info=True)
        return 0
    return max(0, int(left_s))


def mark(*, key: str, seconds: int) -> None:
    """Set a mark that ends by itself."""
    try:
        _client(str(settings.REDIS_URL)).set(_name(key), int(time.time()), ex=seconds)
    except (redis.RedisError, OSError):
        log.warning("counting.away", exc_info=True)


def forget(*, keys: list[str]) -> None:
    """Drop counters and marks."""
    try:
        _client(str(settings.REDIS_URL)).delete(*map(_name, keys))
    except (redis.RedisError, OSError):
        log.warning("counting.away", exc_info=True)


@functools.lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2)


def _name(key: str) -> str:
    return f"tidegate:count:{key}"
