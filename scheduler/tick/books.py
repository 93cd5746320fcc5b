"""The standing check: bookings are derived, so they are compared with what they derive from."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Sum

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, ReplicaPhase

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One figure that is not what it derives from."""

    what: str
    object_id: int
    booked: int
    derived: int


def set_right() -> None:
    """Compare, and set right what differs. A difference is a warning in the log."""
    with transaction.atomic():
        models.Cluster.objects.locked()
        for difference in find_differences():
            log.warning("books.difference", extra={"difference": difference})
            _set_right(difference)


def find_differences() -> list[Difference]:
    """Return every booking that does not follow from the replicas that are alive. Empty is right."""
    return [*_device_differences(), *_ended_that_hold(), *_interval_differences()]


def _device_differences() -> list[Difference]:
    sums = {
        row["device_id"]: (row["mgpu"], row["mib"])
        for row in models.ReplicaDevice.objects.exclude(replica__phase=ReplicaPhase.ENDED)
        .values("device_id")
        .annotate(mgpu=Sum("mgpu"), mib=Sum("memory_mib"))
    }
    found: list[Difference] = []
    for device in models.Device.objects.all():
        mgpu, mib = sums.get(device.pk, (0, 0))
        if device.allocated_mgpu != mgpu:
            found.append(
                Difference(
                    what="device_mgpu",
                    object_id=device.pk,
                    booked=device.allocated_mgpu,
                    derived=mgpu,
                )
            )
        if device.allocated_mib != mib:
            found.append(
                Difference(
                    what="device_mib",
                    object_id=device.pk,
                    booked=device.allocated_mib,
                    derived=mib,
                )
            )
    return found


def _ended_that_hold() -> list[Difference]:
    ended = models.ReplicaDevice.objects.filter(replica__phase=ReplicaPhase.ENDED)
    held = [
        Difference(what="ended_replica_holds", object_id=row.pk, booked=row.mgpu, derived=0)
        for row in ended
    ]
    alive = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).filter(
        workload__phase__in=list(END_PHASES)
    )
    return held + [
        Difference(what="ended_workload_runs", object_id=row.pk, booked=1, derived=0)
        for row in alive
    ]


def _interval_differences() -> list[Difference]:
    open_rows = set(
        models.AllocationInterval.objects.filter(to_us__isnull=True).values_list(
            "replica_id", flat=True
        )
    )
    alive = set(
        models.Replica.objects.exclude(phase=ReplicaPhase.ENDED).values_list("pk", flat=True)
    )
    return [
        Difference(
            what="interval_open",
            object_id=pk,
            booked=int(pk in open_rows),
            derived=int(pk in alive),
        )
        for pk in sorted(open_rows ^ alive)
    ]


def _set_right(difference: Difference) -> None:
    match difference.what:
        case "device_mgpu":
            models.Device.objects.filter(pk=difference.object_id).update(
                allocated_mgpu=difference.derived
            )
        case "device_mib":
            models.Device.objects.filter(pk=difference.object_id).update(
                allocated_mib=difference.derived
            )
        case "ended_replica_holds":
            models.ReplicaDevice.objects.filter(pk=difference.object_id).delete()
        case _:
            log.error("books.difference.for_a_person", extra={"difference": difference})
