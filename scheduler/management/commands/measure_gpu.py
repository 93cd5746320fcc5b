"""Measure what a process costs of GPU memory before it does anything, for the submit page."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.operations.authority import SYSTEM
from scheduler.operations.gpu_costs import record_fixed_cost
from scheduler.telemetry.fixed_cost import CanNotMeasure, measure
from scheduler.tick.run import utc_now


class Command(BaseCommand):
    """``manage.py measure_gpu``: one process with an empty CUDA context on each model of GPU."""

    help = "Measure the fixed cost of a process on this machine's GPUs and keep it."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            found = measure()
        except CanNotMeasure as error:
            raise CommandError(str(error)) from error
        for cost in found:
            record_fixed_cost(
                gpu_model=cost.gpu_model,
                fixed_mib=cost.fixed_mib,
                authority=SYSTEM,
                now=utc_now(),
            )
            self.stdout.write(f"{cost.gpu_model}: {cost.fixed_mib} MiB a process")
