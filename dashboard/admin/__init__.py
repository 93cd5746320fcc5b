"""The administration site: every change goes through the operations that pages and API use."""

from __future__ import annotations

from dashboard.admin import cluster, log, people, tenancy

__all__ = ["cluster", "log", "people", "tenancy"]
