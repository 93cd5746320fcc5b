"""Whether this server can answer requests: database, its migrations, Redis."""

from __future__ import annotations

from dataclasses import dataclass

import redis
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from scheduler import events


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at: what was found, and what to do where it is not well."""

    name: str
    is_well: bool
    says: str
    do: str = ""
    #: It works as it is, but will or may hurt.
    is_warning: bool = False


#: What this process has found of migrations once all were applied: to look reads each file of them.
_applied: list[Finding] = []


def check() -> tuple[Finding, ...]:
    """Return what a server needs to answer requests."""
    database = check_database()
    if not database.is_well:
        return database, check_redis()
    return database, _check_migrations_once(), check_redis()


def check_database() -> Finding:
    """Look whether the database answers."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return Finding(
            name="database",
            is_well=False,
            says=f"does not answer ({type(error).__name__})",
            do="Start it, and see that DATABASE_URL leads to it.",
        )
    return Finding(name="database", is_well=True, says=f"{connection.vendor} answers")


def _check_migrations_once() -> Finding:
    """Look at migrations until all are applied; under a running server they are not taken back."""
    if _applied:
        return _applied[0]
    found = check_migrations()
    if found.is_well:
        _applied.append(found)
    return found


def check_migrations() -> Finding:
    """Look whether the tables have the form that this code expects."""
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not missing:
        return Finding(name="migrations", is_well=True, says="all are applied")
    names = ", ".join(f"{one.app_label} {one.name}" for one, _back in missing[:3])
    return Finding(
        name="migrations",
        is_well=False,
        says=f"{len(missing)} not applied: {names}",
        do="Run python3 manage.py migrate, after a backup.",
    )


def check_redis() -> Finding:
    """Look whether Redis answers."""
    try:
        version = str(events.client().info("server").get("redis_version", ""))
    except redis.RedisError as error:
        return Finding(
            name="redis",
            is_well=False,
            says=f"does not answer ({type(error).__name__})",
            do="Start it, and see that REDIS_URL leads to it and has its password.",
        )
    return Finding(name="redis", is_well=True, says=f"answers, version {version}")
