"""What system admins do with the cluster's settings and prices."""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal

from django.db import transaction
from django.db.models import F

from scheduler import events, models
from scheduler.core.instants import FIRST_YEAR, LAST_YEAR, to_us
from scheduler.operations import audit, usage_rollup
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, Refused
from scheduler.queries import usage_blocks


class SettingRefused(Refused):
    """A change of a setting or a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is set for the whole cluster."""

    name: str
    time_zone: str
    currency: str
    forbid_oversubscription: bool
    fair_share_reclaim: bool
    idle_threshold_permille: int
    node_lost_after_s: int
    show_others_in_use: bool


@transaction.atomic
def change_settings(*, settings: Settings, authority: Authority, now: datetime) -> models.Cluster:
    """Change the cluster's settings.

    Raises:
        NotPermitted: only system admins.
        SettingRefused: a name, zone or number that can't be.
    """
    _require(authority)
    problems = _problems(settings)
    if problems:
        raise SettingRefused(problems)
    cluster = models.Cluster.objects.locked()
    names = [each.name for each in fields(Settings)]
    before = {name: getattr(cluster, name) for name in names}
    for name in names:
        setattr(cluster, name, getattr(settings, name))
    cluster.generation = F("generation") + 1
    cluster.save(update_fields=[*names, "generation"])
    cluster.refresh_from_db()
    audit.record(
        authority=authority,
        now=now,
        action="settings.change",
        target=cluster,
        before=before,
        after={name: getattr(settings, name) for name in names},
    )
    events.wake_on_commit()
    return cluster


@transaction.atomic
def set_price(
    *,
    gpu_model: str,
    price_per_hour: Decimal,
    from_at: datetime,
    authority: Authority,
    now: datetime,
) -> models.GpuPrice:
    """Set what a GPU of a model costs an hour from an instant on; an empty model is the default.

    Raises:
        NotPermitted: only system admins.
        SettingRefused: a negative price, or a date beyond what clocks can tell.
    """
    _require(authority)
    if not FIRST_YEAR <= from_at.year <= LAST_YEAR:
        raise SettingRefused(
            [
                Problem(
                    field="from_at",
                    code="far_off",
                    message=f"Give a date in the years {FIRST_YEAR} to {LAST_YEAR}.",
                    params={"first": FIRST_YEAR, "last": LAST_YEAR},
                )
            ]
        )
    if price_per_hour < 0:
        raise SettingRefused(
            [Problem(field="price_per_hour", code="negative", message="Must not be negative.")]
        )
    before = models.GpuPrice.objects.filter(gpu_model=gpu_model, from_at=from_at).first()
    old = str(before.price_per_hour) if before else None
    mark = usage_blocks.price_mark()
    price, _ = models.GpuPrice.objects.update_or_create(
        gpu_model=gpu_model, from_at=from_at, defaults={"price_per_hour": price_per_hour}
    )
    audit.record(
        authority=authority,
        now=now,
        action="price.set",
        target=price,
        before={"price_per_hour": old},
        after={"price_per_hour": str(price_per_hour), "gpu_model": gpu_model},
    )
    usage_rollup.prices_changed(before=mark, from_us=to_us(from_at))
    return price


@transaction.atomic
def remove_price(*, price_id: int, authority: Authority, now: datetime) -> None:
    """Take a price away: the one before it counts again.

    Raises:
        NotFound, NotPermitted.
    """
    _require(authority)
    price = models.GpuPrice.objects.filter(pk=price_id).first()
    if price is None:
        raise NotFound("price")
    audit.record(
        authority=authority,
        now=now,
        action="price.remove",
        target=price,
        before={"price_per_hour": str(price.price_per_hour), "gpu_model": price.gpu_model},
    )
    mark = usage_blocks.price_mark()
    price.delete()
    usage_rollup.prices_changed(before=mark, from_us=to_us(price.from_at))


def _require(authority: Authority) -> None:
    if not authority.may(Action.NODES):
        raise NotPermitted(
            "Only a system admin may change nodes, pools, prices and settings. Ask one.",
            code="nodes_are_for_admins",
        )


def _problems(settings: Settings) -> list[Problem]:
    problems = []
    if not 1 <= len(settings.name.strip()) <= 80:
        problems.append(
            Problem(
                field="name", code="bad_cluster_name", message="Give a name of 1 to 80 characters."
            )
        )
    if settings.time_zone not in zoneinfo.available_timezones():
        problems.append(
            Problem(
                field="time_zone",
                code="bad_zone",
                message="Not a time zone: use a name such as Asia/Taipei.",
            )
        )
    if not 0 <= settings.idle_threshold_permille <= 1000:
        problems.append(
            Problem(
                field="idle_threshold_permille",
                code="bad_permille",
                message="Use 0 to 1000 thousandths.",
            )
        )
    if settings.node_lost_after_s < 5:
        problems.append(
            Problem(field="node_lost_after_s", code="too_short", message="Use at least 5 seconds.")
        )
    return problems
