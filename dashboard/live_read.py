"""Reads for live pages: one scope's state, and what users may see now. Synchronous."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable

from django.utils import timezone, translation

from access.models import User
from access.scopes import visibility_of, with_scratch
from dashboard.live_scopes import Loaded, Rights, Scope
from dashboard.live_wire import overview_to_wire
from scheduler.queries.overview import read_overview

EMPTY_PARTS = {
    "frame": {"partial": False},
    "kpi": {"util": None},
    "lede": [],
    "nodes": [],
    "gpu": {},
    "wl": {},
    "ut": {},
    "pr": {},
    "quota": {"rows": [], "unused": 0},
    "wait": [],
    "ev": [],
    "act": [],
}


def read_scope(scope: Scope) -> Loaded:
    """Return a scope's state, its sentences in its language and zone."""
    now = timezone.now()
    with translation.override(scope.language), timezone.override(zone_named(scope.zone)):
        found = read_overview(visible=scope.visible, pool_name=scope.pool_name, now=now)
        if found is None:
            return Loaded(
                parts=dict(EMPTY_PARTS), at_ms=_ms(now.timestamp()), cycle=0, last_cycle_ms=None
            )
        return Loaded(
            parts=overview_to_wire(found),
            at_ms=_ms(now.timestamp()),
            cycle=found.cycle,
            last_cycle_ms=(
                None if found.last_cycle_at is None else _ms(found.last_cycle_at.timestamp())
            ),
        )


def read_rights(user_ids: Iterable[int]) -> dict[int, Rights]:
    """Return what each of the users may see now; those that are gone or inactive are left out."""
    users = User.objects.filter(id__in=list(user_ids), is_active=True)
    return {user.id: rights_of(user) for user in users}


def rights_of(user: User) -> Rights:
    """Return what a user may see now."""
    return Rights(visible=visibility_of(user=user), scratch=with_scratch(user=user))


def zone_named(name: str) -> zoneinfo.ZoneInfo:
    """Return the time zone of that name, or UTC where there is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return zoneinfo.ZoneInfo("UTC")


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
