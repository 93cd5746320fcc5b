"""A service's page says how much of what it held computed nothing, and what that cost."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.queries.service_idle import read_idle_share

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def replica(scene):
    """A running replica of a service, of which nothing has been measured."""
    models.ActivityInterval.objects.all().delete()
    models.GpuPrice.objects.all().delete()
    return models.Replica.objects.filter(
        phase="running", workload__kind="inference", workload__deleted_at=None
    ).first()


def seen(replica, *, since, until, idle):
    models.ActivityInterval.objects.create(
        replica=replica,
        project=replica.workload.project,
        pool=replica.workload.pool,
        idle=idle,
        mgpu=500,
        from_us=to_us(since),
        to_us=to_us(until),
        open=False,
    )


def test_what_was_measured_in_the_last_day_counts(replica):
    now = timezone.now()
    seen(replica, since=now - 30 * HOUR, until=now - 21 * HOUR, idle=True)  # 3 hours of it count
    seen(replica, since=now - 21 * HOUR, until=now - 12 * HOUR, idle=False)
    models.GpuPrice.objects.create(gpu_model="", price_per_hour=Decimal(100), from_at=now - HOUR)
    found = read_idle_share(workload_id=replica.workload_id, now=now)
    assert found.permille == 250
    assert found.cost == Decimal(150)


def test_what_nobody_measured_is_not_said_to_be_idle(replica):
    found = read_idle_share(workload_id=replica.workload_id, now=timezone.now())
    assert found.permille is None
    assert found.cost is None


def test_the_page_says_it(replica, admin, client):
    now = timezone.now()
    seen(replica, since=now - HOUR, until=now, idle=True)
    client.force_login(admin)
    page = client.get(f"/inference/{replica.workload_id}").content.decode()
    assert "Idle share, 24 hours</dt><dd>100%" in page
