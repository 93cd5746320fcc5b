"""Intervals keep the GPU model, when a start was waited for and ran, and why and for whom it ended."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

import django.db.models.deletion
from django.db import migrations, models

BATCH = 500
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INTERRUPTIONS = ("reclaim", "preempt", "consolidate")


def _us(at):
    if at is None:
        return None
    delta = at - EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def fill(apps, schema_editor):
    """Fill in what the other tables still know of intervals that are there already."""
    model = {name: apps.get_model("scheduler", name) for name in
             ("AllocationInterval", "Device", "DecisionParty", "WorkloadEvent")}  # fmt: skip
    by_node = defaultdict(dict)
    for node_id, index, name in model["Device"].objects.values_list("node_id", "index", "model"):
        by_node[node_id][index] = name
    restarted = set(
        model["WorkloadEvent"].objects.filter(code="start_requested")
        .values_list("workload_id", flat=True).distinct()
    )  # fmt: skip
    losses = {
        (workload_id, at): params.get("lost_s", 0)
        for workload_id, at, params in model["DecisionParty"].objects.filter(role="victim")
        .values_list("workload_id", "decision__at", "params")
    }  # fmt: skip
    fields = ["gpu_models", "asked_us", "running_us", "ended_by", "ended_for_id", "lost_us"]
    rows = model["AllocationInterval"].objects.select_related("replica__vacated_for", "workload")
    batch = []
    for row in rows.order_by("id").iterator(chunk_size=BATCH):
        known = by_node[row.node_id]
        names = [known.get(index, "") for index in row.devices]
        row.gpu_models = names[:1] if len(set(names)) == 1 else names
        row.running_us = _us(row.replica.running_at)
        if row.attempt == 1 and row.workload_id not in restarted:
            row.asked_us = min(_us(row.workload.submitted_at), row.from_us)
        if row.to_us is not None:
            row.ended_by = row.replica.stop_code
        if row.ended_by in INTERRUPTIONS:
            served = row.replica.vacated_for
            row.ended_for_id = None if served is None else served.project_id
            row.lost_us = 1_000_000 * losses.get((row.workload_id, row.replica.stopping_at), 0)
        batch.append(row)
        if len(batch) == BATCH:
            model["AllocationInterval"].objects.bulk_update(batch, fields)
            batch = []
    model["AllocationInterval"].objects.bulk_update(batch, fields)


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="allocationinterval",
            name="gpu_models",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="allocationinterval",
            name="asked_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="allocationinterval",
            name="running_us",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="allocationinterval",
            name="ended_by",
            field=models.CharField(blank=True, max_length=40),
        ),
        migrations.AddField(
            model_name="allocationinterval",
            name="ended_for",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="scheduler.project",
            ),
        ),
        migrations.AddField(
            model_name="allocationinterval",
            name="lost_us",
            field=models.BigIntegerField(default=0),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
