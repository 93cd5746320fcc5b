"""The product's processes: how each is started and how to tell that it answers."""

from __future__ import annotations

import http.client
import sys

from dashboard.launch import resp
from dashboard.launch.redis import RedisPlan
from dashboard.launch.supervisor import Program

STOP_ORDER = ("beat", "worker", "web", "redis")
WORKER_SEEN_KEY = "tidegate:worker_seen"
BEAT_SEEN_KEY = "tidegate:beat_seen"
LAST_TICK_KEY = "tidegate:last_tick"
CELERY = (sys.executable, "-m", "celery", "-A", "dashboard", "--quiet")


def redis_program(redis: RedisPlan) -> Program:
    return Program(
        name="redis", argv=redis.argv, answers=lambda _: resp.ping(redis.url), grace_s=5.0
    )


def web_program(*, host: str, port: int) -> Program:
    server = (sys.executable, "-m", "uvicorn", "dashboard.asgi:application")
    address = ("--host", host, "--port", str(port), "--http", "gateway.corked:CorkedProtocol")
    # Without the graceful limit open WebSockets hold up the end for as long as they last.
    limits = ("--lifespan", "on", "--timeout-graceful-shutdown", "3")
    return Program(
        name="web",
        argv=(*server, *address, *limits, "--no-access-log", "--no-server-header"),
        answers=lambda _: _is_page_there(host, port),
        grace_s=6.0,
    )


def worker_program(*, redis_url: str, port: int) -> Program:
    options = ("--concurrency", "2", "--loglevel", "INFO", "--without-gossip", "--without-mingle")
    return Program(
        name="worker",
        argv=(*CELERY, "worker", *options, "--hostname", f"tidegate-{port}@%h"),
        answers=lambda begun_at: is_seen(redis_url, WORKER_SEEN_KEY, since=begun_at),
        grace_s=15.0,
    )


def beat_program(*, redis_url: str) -> Program:
    # The schedule is fixed, so nothing of it needs to be kept in a file.
    options = ("--scheduler", "celery.beat:Scheduler", "--loglevel", "INFO", "--pidfile", "")
    return Program(
        name="beat",
        argv=(*CELERY, "beat", *options),
        answers=lambda begun_at: is_seen(redis_url, BEAT_SEEN_KEY, since=begun_at),
        grace_s=4.0,
    )


def is_seen(redis_url: str, key: str, *, since: float) -> bool:
    """Test whether a sign of life, a unix time in whole seconds, is not older than ``since``."""
    try:
        seen_at = resp.get_integer(redis_url, key)
    except resp.RedisAway:
        return False
    return seen_at is not None and seen_at >= int(since)


def _is_page_there(host: str, port: int) -> bool:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = http.client.HTTPConnection(reachable, port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
