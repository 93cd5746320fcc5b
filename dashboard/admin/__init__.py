"""The administration site: every change goes through the operations that pages and API use."""

from __future__ import annotations

from dashboard.admin import assets, cluster, log, people, tenancy

__all__ = ["assets", "cluster", "log", "people", "tenancy"]
