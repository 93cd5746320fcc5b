"""Who is told of what was announced: those who may do something there, or who see it."""

from __future__ import annotations

from django.utils import timezone

from access.listing import names_of_all, names_who_may, names_who_see
from scheduler.operations import notices as operations
from scheduler.operations.authority import Action
from scheduler.queries import notices as queries
from scheduler.queries.notices import Announced

SEE = "see"


def tell_announced() -> int:
    """Tell everyone whom what was announced is for; return how many announcements."""
    told = 0
    for announced in queries.list_announced():
        told += operations.tell_announced(
            announcement_id=announced.id, usernames=_names(announced), now=timezone.now()
        )
    return told


def _names(announced: Announced) -> tuple[str, ...]:
    if announced.audience == operations.EVERYONE:
        return names_of_all()
    if announced.audience == SEE:
        return names_who_see(project_id=announced.project_id, department_id=announced.department_id)
    return names_who_may(
        action=Action(announced.audience),
        project_id=announced.project_id,
        department_id=announced.department_id,
    )
