"""The cluster's settings, as pages show them."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler import models


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What is set for the whole cluster."""

    name: str
    time_zone: str
    currency: str
    forbid_oversubscription: bool
    fair_share_reclaim: bool
    show_others_in_use: bool


def read_settings() -> ClusterSettings:
    """Return the settings; a cluster without a row has the defaults."""
    row = models.Cluster.objects.filter(pk=1).first() or models.Cluster(pk=1)
    return ClusterSettings(
        name=row.name,
        time_zone=row.time_zone,
        currency=row.currency,
        forbid_oversubscription=row.forbid_oversubscription,
        fair_share_reclaim=row.fair_share_reclaim,
        show_others_in_use=row.show_others_in_use,
    )
