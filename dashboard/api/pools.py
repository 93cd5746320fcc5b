"""Node pools as endpoints are given them: by name."""

from __future__ import annotations

from django.http import HttpRequest

from dashboard.api.callers import who
from scheduler.operations.refused import NotFound
from scheduler.queries.pool_state import PoolRow, list_pools


def pool_named(request: HttpRequest, name: str) -> PoolRow:
    """Return the pool of that name that the caller may choose; without a name the first one.

    Raises:
        NotFound: there is no such pool for the caller, or no pool at all.
    """
    for pool in list_pools(visible=who(request).visible):
        if name in ("", pool.name):
            return pool
    raise NotFound("node pool")
