"""System checks: settings that would hurt are refused before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from scheduler.kubernetes.terms import BadTerms, read_terms


@register()
def check_channel_layer(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Refuse a channel layer of one process: what the worker says would never reach a page."""
    backend = str(settings.CHANNEL_LAYERS.get("default", {}).get("BACKEND", ""))
    if not backend.endswith("InMemoryChannelLayer") or settings.DEBUG:
        return []
    return [
        Error(
            "The channel layer lives in one process, so pushes never arrive.",
            hint="Use channels_redis.core.RedisChannelLayer.",
            id="scheduler.E001",
        )
    ]


@register()
def check_sqlite_mode(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Refuse SQLite without immediate transactions: writers would fail instead of taking turns."""
    database: dict[str, Any] = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("sqlite3"):
        return []
    if database.get("OPTIONS", {}).get("transaction_mode") == "IMMEDIATE":
        return []
    return [
        Error(
            "SQLite is used without immediate transactions: ticks and pages would lock each other out.",
            hint='Set OPTIONS["transaction_mode"] = "IMMEDIATE", or use PostgreSQL.',
            id="scheduler.E002",
        )
    ]


@register()
def check_kubernetes(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """Refuse settings of the Kubernetes engine with which it could run nothing."""
    if not settings.KUBERNETES_IMAGE:
        return []
    try:
        read_terms(settings, owner="", folder=Path(settings.WORKLOADS_DIR))
    except BadTerms as bad:
        hint = "docs/operations/kubernetes.md tells what each setting means."
        return [Error(str(bad), hint=hint, id="scheduler.E003")]
    return []
