"""The session engine: Django's own in the database, whose rows know whose they are."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore

#: Under this key a session keeps when it began, from where, with what, and when it was seen.
NOTES = "_notes"


class SessionStore(DatabaseStore):
    """Keeps sessions in ``access.models.Session``."""

    @classmethod
    def get_model_class(cls) -> Any:
        """Return the table. Looked up late: the tables import this module."""
        return apps.get_model("access", "Session")

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        """Return the row for a session's data, with what its owner is shown of it."""
        row: Any = super().create_model_instance(data)
        notes = data.get(NOTES, {})
        user_id = data.get(SESSION_KEY)
        row.user_id = int(user_id) if user_id else None
        row.began_us = notes.get("began_us", 0)
        row.seen_us = notes.get("seen_us", 0)
        row.address = notes.get("address") or None
        row.agent = notes.get("agent", "")[:200]
        return row
