"""Reads for live pages: one scope's state, and what users may see now. Synchronous."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable

from django.utils import timezone, translation

from access import sessions
from access.models import User
from access.scopes import visibility_of, with_scratch
from dashboard.live_client import SessionMark
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


def read_rights(
    marks: Iterable[tuple[int, SessionMark | None]],
) -> dict[tuple[int, SessionMark | None], Rights]:
    """Return what each (user, session) may see now.

    Left out are those whose account or session has ended, or whose password is another one since.
    """
    asked = set(marks)
    users = User.objects.filter(id__in={user_id for user_id, _mark in asked}, is_active=True)
    by_id = {user.id: user for user in users}
    living = sessions.living_keys(mark.key for _user_id, mark in asked if mark)
    rights = {user.id: rights_of(user) for user in by_id.values()}
    return {
        (user_id, mark): rights[user_id]
        for user_id, mark in asked
        if user_id in rights and _still_in(by_id[user_id], mark, living)
    }


def rights_of(user: User) -> Rights:
    """Return what a user may see now."""
    return Rights(visible=visibility_of(user=user), scratch=with_scratch(user=user))


def _still_in(user: User, mark: SessionMark | None, living: set[str]) -> bool:
    if mark is None:
        return True
    return mark.key in living and mark.password_mark == user.get_session_auth_hash()


def zone_named(name: str) -> zoneinfo.ZoneInfo:
    """Return the time zone of that name, or UTC where there is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return zoneinfo.ZoneInfo("UTC")


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
