"""Reports as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class ReportsConfig(AppConfig):
    """Holds the read side of the ledger; it has no tables."""

    name = "reports"
