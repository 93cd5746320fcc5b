"""Indexes for the orders of the table of workloads; PostgreSQL makes them while work goes on."""

from __future__ import annotations

from django.db import migrations, models

COLUMNS = ("name", "priority", "submitted_at", "phase", "kind", "request_mgpu", "phase_since")


class AddIndexWithoutLock(migrations.AddIndex):
    """An index that locks nothing where the database can make it so; one left half made is made again."""

    atomic = False

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        name = schema_editor.quote_name(self.index.name)
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}", params=None)
        schema_editor.add_index(model, self.index, concurrently=True)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor != "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
            return
        model = from_state.apps.get_model(app_label, self.model_name)
        schema_editor.remove_index(model, self.index, concurrently=True)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("scheduler", "0020_start_estimates"),
    ]

    operations = [
        AddIndexWithoutLock(
            model_name="workload",
            index=models.Index(
                fields=["pool", column, "id", "project", "deleted_at"],
                condition=models.Q(("deleted_at__isnull", True)),
                name=f"workload_sorted_{column}",
            ),
        )
        for column in COLUMNS
    ]
