"""Notices as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class NoticesConfig(AppConfig):
    """Sends; it has no tables: the outbox lies beside the facts."""

    name = "notices"
