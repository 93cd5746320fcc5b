"""The audit log only grows: the database refuses the rest, whatever asks for it."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from scheduler import models
from scheduler.operations import append_only

pytestmark = pytest.mark.django_db


@pytest.fixture
def entry(db):
    """An entry in a database as a product's is: with the triggers, made twice as by two upgrades."""
    append_only.install(connection)
    append_only.install(connection)
    return models.AuditEntry.objects.create(
        at=timezone.now(), actor="lin", door="page", action="workload.stop"
    )


def by_row(entry):
    entry.actor = "someone else"
    entry.save()


WAYS = {
    "save": by_row,
    "update": lambda _entry: models.AuditEntry.objects.update(actor="someone else"),
    "delete": lambda entry: entry.delete(),
    "delete all": lambda _entry: models.AuditEntry.objects.all().delete(),
    "raw": lambda _entry: connection.cursor().execute(f"DELETE FROM {append_only.TABLE}"),
}


@pytest.mark.parametrize("way", sorted(WAYS))
def test_an_entry_is_neither_changed_nor_deleted(entry, way):
    with pytest.raises(DatabaseError, match="only grows"), transaction.atomic():
        WAYS[way](entry)
    assert models.AuditEntry.objects.get().actor == "lin"


def test_entries_are_added(entry):
    models.AuditEntry.objects.create(at=entry.at, actor="mei", door="page", action="workload.stop")
    assert models.AuditEntry.objects.count() == 2
