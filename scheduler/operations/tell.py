"""Whom to tell: those who may change a department's quotas. The package of access says who that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from scheduler import models
from scheduler.operations.authority import Action

#: Takes an action and a department's id; returns names.
Source = Callable[[Action, int], Iterable[str]]
_sources: list[Source] = []


def ask_who_may(source: Source) -> None:
    """Say who knows whose role holds an action over a department. Called once, at start."""
    _sources[:] = [source]


def tell_admins(
    *, department_ids: Iterable[int], code: str, params: dict[str, object], now: datetime
) -> None:
    """Leave a notice with everyone who may change quotas of projects of these departments."""
    names = {
        name
        for department_id in set(department_ids)
        for source in _sources
        for name in source(Action.PROJECT_QUOTA, department_id)
    }
    models.Notification.objects.bulk_create(
        models.Notification(username=name, at=now, code=code, params=params)
        for name in sorted(names)
    )
