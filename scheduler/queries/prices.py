"""What an hour of a GPU costs."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from scheduler import models


def prices_at(now: datetime) -> dict[str, Decimal]:
    """Return the price of an hour in force, by GPU model; the default under the empty name."""
    rows = models.GpuPrice.objects.filter(from_at__lte=now).order_by("from_at")
    return {row.gpu_model: row.price_per_hour for row in rows}
