"""The cluster's own time zone: in it schedules of quotas are kept and shown."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from dashboard.live_read import zone_named
from scheduler.queries.settings import read_settings


def cluster_zone() -> ZoneInfo:
    """Return the zone that is set for the cluster."""
    return zone_named(read_settings().time_zone)
