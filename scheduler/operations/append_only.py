"""The audit log only grows: the database itself refuses to change or delete its entries.

The triggers are made anew after each ``migrate``: SQLite drops them where a migration rebuilds the table.
"""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

from scheduler import models

MESSAGE = "the audit log only grows"
TABLE = models.AuditEntry._meta.db_table

_SQLITE = [
    f"""CREATE TRIGGER IF NOT EXISTS audit_entry_no_{verb.lower()} BEFORE {verb} ON "{TABLE}"
    BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END"""
    for verb in ("UPDATE", "DELETE")
]
_POSTGRES = [
    f"""CREATE OR REPLACE FUNCTION audit_entry_only_grows() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{MESSAGE}' USING ERRCODE = 'integrity_constraint_violation'; END $$""",
    *(
        statement
        for verb, each in (("UPDATE", "ROW"), ("DELETE", "ROW"), ("TRUNCATE", "STATEMENT"))
        for statement in (
            f'DROP TRIGGER IF EXISTS audit_entry_no_{verb.lower()} ON "{TABLE}"',
            f"""CREATE TRIGGER audit_entry_no_{verb.lower()} BEFORE {verb} ON "{TABLE}"
            FOR EACH {each} EXECUTE FUNCTION audit_entry_only_grows()""",
        )
    ),
]


def install(connection: BaseDatabaseWrapper) -> None:
    """Make the triggers in a database whose tables are there; twice is no harm."""
    if TABLE not in connection.introspection.table_names():
        return
    statements = {"sqlite": _SQLITE, "postgresql": _POSTGRES}[connection.vendor]
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
