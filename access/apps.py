"""Access as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """Holds users and access rules."""

    name = "access"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Note each sign-in; say to the scheduler who is to be told of a department's quotas."""
        from access import sessions
        from access.listing import names_who_may
        from scheduler.operations import tell

        sessions.listen()
        tell.ask_who_may(
            lambda action, department_id: names_who_may(
                action=action, project_id=0, department_id=department_id
            )
        )
