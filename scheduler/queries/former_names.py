"""What departments and projects were called before: out of the audit log, which has every rename."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import NamedTuple

from scheduler import models

_CHANGES = ("department.change", "project.change")


class FormerName(NamedTuple):
    """A name that a unit bore until an instant."""

    name: str
    until: datetime


def read_former_names() -> dict[tuple[str, int], tuple[FormerName, ...]]:
    """Return former names by ("department" or "project", id), in order of time. One query.

    The caller shows those of units that its reader sees.
    """
    found: dict[tuple[str, int], list[FormerName]] = defaultdict(list)
    rows = models.AuditEntry.objects.filter(action__in=_CHANGES, result="done").order_by("id")
    for kind, id_, before, after, at in rows.values_list(
        "object_kind", "object_id", "before", "after", "at"
    ):
        name = before.get("name")
        if id_ is not None and isinstance(name, str) and name != after.get("name"):
            found[(kind, id_)].append(FormerName(name, at))
    return {unit: tuple(names) for unit, names in found.items()}
