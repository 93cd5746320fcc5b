"""The database refuses what must never be, whoever writes it."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from django.db.models import F

from scheduler import models
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db


def test_a_device_is_never_booked_above_its_capacity():
    place = places.card()
    device = models.Device.objects.get(node__pool=place.pool)
    with (
        pytest.raises(IntegrityError, match="device_allocated_not_over_capacity"),
        transaction.atomic(),
    ):
        models.Device.objects.filter(pk=device.pk).update(allocated_mgpu=F("allocated_mgpu") + 1001)


def test_a_device_is_never_booked_above_its_memory():
    place = places.card()
    with (
        pytest.raises(IntegrityError, match="device_memory_not_over_capacity"),
        transaction.atomic(),
    ):
        models.Device.objects.filter(node__pool=place.pool).update(allocated_mib=46_069)


def test_a_limit_is_never_below_its_quota():
    place = places.article()
    with (
        pytest.raises(IntegrityError, match="projectquota_limit_not_below_quota"),
        transaction.atomic(),
    ):
        models.ProjectQuota.objects.filter(project=place.projects["unit-a"]).update(limit_mgpu=89)


def test_a_limit_may_equal_its_quota_at_both_levels():
    place = places.article()
    models.ProjectQuota.objects.filter(project=place.projects["unit-a"]).update(limit_mgpu=90)
    models.DepartmentQuota.objects.filter(department=place.departments["dev-test"]).update(
        limit_mgpu=750
    )
    row = models.DepartmentQuota.objects.get(department=place.departments["dev-test"])
    assert (row.quota_mgpu, row.limit_mgpu) == (750, 750)


def test_one_replica_of_a_workload_never_runs_twice_at_once():
    place = places.article()
    workload = place.submit("train-1", of="unit-a", gpu="0.09")
    node = models.Node.objects.get(pool=place.pool)
    values = {"workload": workload, "ordinal": 0, "node": node, "booked_at": START}
    models.Replica.objects.create(attempt=1, **values)
    with (
        pytest.raises(IntegrityError, match=r"replica_runs_once|UNIQUE constraint failed"),
        transaction.atomic(),
    ):
        models.Replica.objects.create(attempt=2, **values)


def test_a_replica_has_an_end_exactly_when_it_has_ended():
    place = places.article()
    workload = place.submit("train-1", of="unit-a", gpu="0.09")
    node = models.Node.objects.get(pool=place.pool)
    with pytest.raises(IntegrityError, match="replica_ended_has_its_time"), transaction.atomic():
        models.Replica.objects.create(
            workload=workload, ordinal=0, attempt=1, node=node, booked_at=START, phase="ended"
        )


def test_a_phase_outside_the_closed_set_is_refused():
    place = places.article()
    workload = place.submit("train-1", of="unit-a", gpu="0.09")
    with pytest.raises(IntegrityError, match="workload_phase_is_known"), transaction.atomic():
        models.Workload.objects.filter(pk=workload.pk).update(phase="unknown")


def test_a_queue_has_one_quota_in_force_at_a_time():
    place = places.article()
    with (
        pytest.raises(
            IntegrityError, match=r"project_has_one_quota_in_force|UNIQUE constraint failed"
        ),
        transaction.atomic(),
    ):
        models.QuotaHistory.objects.create(
            department=place.departments["dev-test"],
            project=place.projects["unit-a"],
            pool=place.pool,
            quota_mgpu=1,
            limit_mgpu=1,
            over_quota=True,
            from_us=0,
        )
