"""What is wrong with an installation, line by line, each with what to do about it."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import redis
from celery.exceptions import CeleryError
from django.conf import settings
from django.core import checks
from django.db import DatabaseError, connection
from kombu.exceptions import KombuError

from dashboard import readiness
from dashboard.celery import app
from dashboard.readiness import Finding
from scheduler import events
from scheduler.engines.base import EngineError
from scheduler.queries import engine_records
from scheduler.queries.metrics import read_tick
from scheduler.tick import engine_room

#: Clocks of one installation may differ by so much.
CLOCKS_MS = 2_000
#: A cycle that ended longer ago than this many ticks, and at least so many seconds.
SILENT_TICKS, SILENT_S = 10, 15
LEAST_FREE_PERCENT, LEAST_FREE_GIB = 5, 2
LOOPBACK = ("127.0.0.1", "::1", "localhost", "")
GIB = 1024**3


def examine() -> tuple[Finding, ...]:
    """Return everything that was looked at, in an order in which one would mend it."""
    found: list[Finding] = [*_settings(), *_permissions(), *_disk()]
    basics = readiness.check()
    found += [*basics, *_kubernetes()]
    is_well = {one.name: one.is_well for one in basics}
    if is_well.get("database") and is_well.get("migrations"):
        found += _within_database(redis_answers=is_well.get("redis", False))
    return tuple(found)


def _within_database(*, redis_answers: bool) -> Iterator[Finding]:
    for look in (_clock, _ticking, _engine_records):
        try:
            if look is not _ticking or redis_answers:
                yield from look()
        except (DatabaseError, redis.RedisError, OSError) as error:
            yield Finding(
                name=look.__name__.strip("_"),
                is_well=False,
                says=f"could not be looked at ({type(error).__name__}: {error})",
                do="Mend what is wrong above, then run doctor again.",
            )


# --- Settings -------------------------------------------------------------------------------------


def _settings() -> Iterator[Finding]:
    problems = [one for one in checks.run_checks() if one.level >= checks.WARNING]
    for one in problems:
        yield _finding(
            "settings", str(one.msg), str(one.hint or ""), warns=one.level < checks.ERROR
        )
    unsafe = list(_unsafe())
    yield from unsafe
    if not problems and not unsafe:
        yield Finding(name="settings", is_well=True, says="nothing unsafe is set")


def _unsafe() -> Iterator[Finding]:
    if settings.DEBUG:
        yield _finding(
            "settings",
            "debug mode is on: errors show settings to everybody",
            "Unset TIDEGATE_DEBUG.",
        )
    if "*" in settings.ALLOWED_HOSTS:
        yield _finding(
            "settings",
            "pages answer to every host name",
            "Name them in TIDEGATE_ALLOWED_HOSTS.",
            warns=True,
        )
    if len(settings.SECRET_KEY) < 40:
        yield _finding(
            "settings",
            "the secret key is short, and with it sessions can be forged",
            "Remove TIDEGATE_SECRET_KEY, so that one is made, or give at least 40 random characters.",
        )
    if settings.PUBLIC_URL.startswith("https://") and not settings.SESSION_COOKIE_SECURE:
        yield _finding(
            "settings",
            "people come by HTTPS, and cookies are sent over plain HTTP too",
            "Set TIDEGATE_HTTPS=1.",
        )
    broker = urlsplit(settings.REDIS_URL)
    if not broker.password and broker.scheme != "unix":
        yield _finding(
            "settings",
            "Redis has no password: whoever reaches it may run tasks",
            "Give it one, and put it into REDIS_URL.",
            warns=(broker.hostname or "") in LOOPBACK,
        )


# --- Folders --------------------------------------------------------------------------------------


def _permissions() -> Iterator[Finding]:
    wrong = 0
    for folder in (Path(settings.DATA_DIR), Path(settings.WORKLOADS_DIR)):
        if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            wrong += 1
            yield _finding(
                "folders",
                f"{folder} can't be written to by this user",
                f"Give it to the user that runs Tidegate: chown -R USER {folder}",
            )
    for name in ("secret.key", "credentials.key", "redis.url"):
        path = Path(settings.DATA_DIR) / name
        if path.exists() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            wrong += 1
            yield _finding("folders", f"others can read {path}", f"chmod 600 {path}")
    if not wrong:
        yield Finding(
            name="folders", is_well=True, says="can be written to, and keys are one's own"
        )


def _disk() -> Iterator[Finding]:
    for name, folder in (("data", settings.DATA_DIR), ("workloads", settings.WORKLOADS_DIR)):
        place = next(one for one in (Path(folder), *Path(folder).parents) if one.exists())
        total, _used, free = shutil.disk_usage(place)
        says = f"{free / GIB:.1f} GiB of {total / GIB:.0f} GiB are free for {name} ({folder})"
        if free < total * LEAST_FREE_PERCENT / 100 and free < 20 * LEAST_FREE_GIB * GIB:
            yield _finding(
                "disk",
                says,
                "Make room: old logs and checkpoints of ended work are in the workloads folder.",
                warns=free >= LEAST_FREE_GIB * GIB,
            )
        else:
            yield Finding(name="disk", is_well=True, says=says)


# --- Processes ------------------------------------------------------------------------------------


def _clock() -> Iterator[Finding]:
    others: list[tuple[str, Callable[[], datetime]]] = [("Redis", _redis_time)]
    if connection.vendor == "postgresql":
        others.append(("PostgreSQL", _database_time))
    worst = 0
    for name, read in others:
        try:
            off_ms = round((datetime.now(tz=UTC) - read()).total_seconds() * 1000)
        except redis.RedisError:
            continue
        worst = max(worst, abs(off_ms))
        if abs(off_ms) > CLOCKS_MS:
            yield _finding(
                "clock",
                f"this machine's differs from that of {name} by {off_ms / 1000:.1f} s",
                "Let all machines take their time from one source (chrony, systemd-timesyncd).",
            )
    if worst <= CLOCKS_MS:
        yield Finding(name="clock", is_well=True, says=f"agrees to {worst} ms")


def _redis_time() -> datetime:
    seconds, micros = events.client().time()
    return datetime.fromtimestamp(int(seconds), tz=UTC).replace(microsecond=int(micros))


def _database_time() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        found = cursor.fetchone()[0]
    assert isinstance(found, datetime)
    return found


def _ticking() -> Iterator[Finding]:
    tick = read_tick(now=datetime.now(tz=UTC))
    longest_s = max(SILENT_S, SILENT_TICKS * settings.TICK_S)
    if tick.age_s is not None and tick.age_s <= longest_s:
        says = f"cycle {tick.cycle} ended {tick.age_s:.0f} s ago and took {tick.last_ms} ms"
        yield Finding(name="worker and beat", is_well=True, says=says)
        return
    said = (
        "the scheduler has never ticked"
        if tick.age_s is None
        else f"no tick for {tick.age_s:.0f} s"
    )
    if _worker_answers():
        do = "A worker answers, so the timer is away: start celery -A dashboard beat, and read beat.log."
        yield _finding("beat", said, do)
    else:
        do = "No worker answers: start celery -A dashboard worker (or manage.py up), and read worker.log."
        yield _finding("worker", said, do)


def _worker_answers() -> bool:
    until = time.monotonic() + 2
    while time.monotonic() < until:
        try:
            if app.control.ping(timeout=1.0):
                return True
        except (CeleryError, KombuError, OSError):
            return False
    return False


def _engine_records() -> Iterator[Finding]:
    found = engine_records.compare(folder=Path(settings.WORKLOADS_DIR))
    if found.foreign:
        yield _finding(
            "engine",
            "the folder of running work belongs to another database",
            "Let DATABASE_URL and TIDEGATE_WORKLOADS belong together; a tick sets that work aside.",
        )
    if found.missing:
        yield _finding(
            "engine",
            f"{len(found.missing)} running replicas have no record here: {_some(found.missing)}",
            "The next tick counts them as lost and starts them again from their checkpoints.",
        )
    if found.left:
        yield _finding(
            "engine",
            f"{len(found.left)} records belong to no living replica: {_some(found.left)}",
            "A working scheduler ends them within half a minute; python3 manage.py end_work ends all work.",
            warns=True,
        )
    if not (found.foreign or found.missing or found.left):
        yield Finding(
            name="engine", is_well=True, says=f"{found.agreed} records are those of the tables"
        )


def _kubernetes() -> Iterator[Finding]:
    """Look whether the API server answers, and lets this user see pods and nodes."""
    if not settings.KUBERNETES_IMAGE:
        return
    link = engine_room.kubernetes_link()
    namespace = settings.KUBERNETES_NAMESPACE
    try:
        for path in (f"/api/v1/namespaces/{namespace}/pods", "/api/v1/nodes"):
            link.call("GET", path, query={"limit": 1})
    except EngineError as error:
        yield _finding(
            "kubernetes",
            str(error),
            "See that TIDEGATE_KUBERNETES_CONFIG leads to the cluster, and that its user has the rights of "
            "deploy/kubernetes/rights.yaml.",
        )
    else:
        yield Finding(
            name="kubernetes", is_well=True, says=f"answers; work runs in namespace {namespace}"
        )


def _some(keys: tuple[str, ...]) -> str:
    return ", ".join(keys[:5]) + (" ..." if len(keys) > 5 else "")


def _finding(name: str, says: str, do: str, *, warns: bool = False) -> Finding:
    return Finding(name=name, is_well=False, says=says, do=do, is_warning=warns)
