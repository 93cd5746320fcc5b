"""The database as files, taken while it is in use, and put back: SQLite as one, PostgreSQL table by table."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from django.apps import apps
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

SQLITE_FILE = "database.sqlite3"
TABLES = "tables"
#: Written by the migrations themselves.
_MIGRATIONS = "django_migrations"


class NotEmpty(Exception):
    """The database has users already: nothing is put over it unasked."""


def kind() -> str:
    """Return "sqlite" or "postgresql"."""
    return connection.vendor


def has_content() -> bool:
    """Test whether somebody has used this database."""
    from access.models import User

    if User._meta.db_table not in connection.introspection.table_names():
        return False
    return User.objects.exists()


def migrations() -> dict[str, str]:
    """Return the newest applied migration of each application that is ours or Django's."""
    found: dict[str, str] = {}
    for app, name in sorted(MigrationRecorder(connection).applied_migrations()):
        found[app] = max(found.get(app, ""), name)
    return found


def counts() -> dict[str, int]:
    """Return the number of rows of each table."""
    return {name: _count(name) for name in _tables()}


def dump(folder: Path) -> dict[str, int]:
    """Write the database as it is at one moment into ``folder``; return the rows of each table then."""
    if kind() == "sqlite":
        return _dump_sqlite(folder / SQLITE_FILE)
    (folder / TABLES).mkdir()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for table in _tables():
            if table != _MIGRATIONS:
                _copy_out(table, folder / TABLES / f"{table}.copy")
        return counts()


def refuse_newer(state: Mapping[str, str]) -> None:
    """Refuse a dump that was made at migrations which this version does not know.

    Raises:
        ValueError: it is of a newer version.
    """
    known = MigrationExecutor(connection).loader.graph.nodes
    missing = [f"{app}.{name}" for app, name in state.items() if (app, name) not in known]
    if missing:
        raise ValueError(f"The backup is of a newer version: it has {', '.join(missing)}.")


def load(folder: Path, *, state: Mapping[str, str]) -> None:
    """Put what ``dump`` wrote into this database, then bring its tables to the present form.

    ``state``: the migrations that the dump was made at.

    Raises:
        NotEmpty: a PostgreSQL database that was used already.
    """
    if kind() == "sqlite":
        _load_sqlite(folder / SQLITE_FILE)
    else:
        if has_content():
            raise NotEmpty
        _load_postgres(folder / TABLES, state)
    call_command("migrate", interactive=False, verbosity=0)


def _dump_sqlite(file: Path) -> dict[str, int]:
    tables = _tables()
    connection.ensure_connection()
    with closing(sqlite3.connect(file)) as copy:
        cast(sqlite3.Connection, connection.connection).backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        counted = {each: copy.execute(f"SELECT count(*) FROM {_quoted(each)}") for each in tables}
        return {each: int(found.fetchone()[0]) for each, found in counted.items()}


def _load_sqlite(file: Path) -> None:
    place = Path(str(connection.settings_dict["NAME"]))
    connection.close()
    for ending in ("-wal", "-shm"):
        place.with_name(place.name + ending).unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(place.name + ".restoring")
    shutil.copyfile(file, draft)
    draft.chmod(0o600)
    draft.replace(place)


def _load_postgres(folder: Path, state: Mapping[str, str]) -> None:
    MigrationExecutor(connection).migrate(list(state.items()))
    with transaction.atomic():
        with connection.cursor() as cursor:
            # What the migrations have put there comes back with the backup.
            for table in _tables():
                if table != _MIGRATIONS and _count(table):
                    cursor.execute(f"DELETE FROM {_quoted(table)}")
        for file in sorted(folder.glob("*.copy")):
            _copy_in(file)
        _set_sequences()


def _copy_out(table: str, file: Path) -> None:
    columns = _columns(table)
    names = ", ".join(_quoted(column) for column in columns)
    with connection.cursor() as cursor, open(file, "wb") as out:
        out.write(json.dumps(columns).encode() + b"\n")
        with _raw(cursor).copy(f"COPY {_quoted(table)} ({names}) TO STDOUT") as copy:
            for piece in copy:
                out.write(piece)


def _copy_in(file: Path) -> None:
    table = file.stem
    with connection.cursor() as cursor, open(file, "rb") as given:
        names = ", ".join(_quoted(column) for column in json.loads(given.readline()))
        with _raw(cursor).copy(f"COPY {_quoted(table)} ({names}) FROM STDIN") as copy:
            while piece := given.read(1 << 20):
                copy.write(piece)


def _set_sequences() -> None:
    with connection.cursor() as cursor:
        for table, column, sequence in _sequences():
            cursor.execute(
                f"SELECT setval(%s, (SELECT max({_quoted(column)}) FROM {_quoted(table)}), true) "
                f"FROM {_quoted(table)} LIMIT 1",
                [sequence],
            )


def _sequences() -> Iterator[tuple[str, str, str]]:
    with connection.cursor() as cursor:
        for table in _tables():
            for found in connection.introspection.get_sequences(cursor, table):
                yield table, str(found["column"]), str(found["name"])


def _tables() -> list[str]:
    """Return the tables of all models that are there, and the list of migrations."""
    there = set(connection.introspection.table_names())
    ours = {
        model._meta.db_table
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    }
    return sorted((ours | {_MIGRATIONS}) & there)


def _columns(table: str) -> list[str]:
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, table)
    return [each.name for each in described]


def _count(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {_quoted(table)}")
        return int(cursor.fetchone()[0])


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


def _raw(cursor: Any) -> Any:
    """Return psycopg's own cursor, which can copy."""
    return cursor.cursor
