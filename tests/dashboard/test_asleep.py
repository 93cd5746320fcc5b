"""A service at zero waits for requests, not for a place: it counts nowhere as waiting."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler import models
from scheduler.queries.overview import read_overview
from scheduler.queries.visibility import WHOLE_CLUSTER

pytestmark = pytest.mark.django_db


@pytest.fixture
def service(scene):
    """The one that has waited longest, as a service that nobody calls."""
    first = models.Workload.objects.filter(phase="pending", deleted_at=None).earliest("id")
    models.Workload.objects.filter(pk=first.pk).update(
        kind="inference",
        min_replicas=0,
        desired_replicas=0,
        reason_code="",
        phase_since=timezone.now() - timedelta(days=2),
    )
    first.refresh_from_db()
    return first


def seen():
    return read_overview(visible=WHOLE_CLUSTER, pool_name="", now=timezone.now())


def test_at_zero_nobody_waits(service):
    others = models.Workload.objects.filter(phase="pending", deleted_at=None).exclude(pk=service.pk)
    # Given a service at zero beside work that waits
    found = seen()
    assert found.tiles.waiting == others.count() == len(found.waiting)
    assert service.name not in {row.name for row in found.waiting}
    waiting = {row.name: row.waiting for row in found.tree.rows if not row.is_department}
    assert waiting[service.project.name] == others.filter(project=service.project).count()
    # When somebody calls it, it waits with them
    models.Workload.objects.filter(pk=service.pk).update(desired_replicas=1)
    assert seen().tiles.waiting == others.count() + 1


def test_its_state_is_said_as_it_is(service, admin, client):
    client.force_login(admin)
    table = client.get("/workloads", {"q": service.name}).content.decode()
    assert "At zero" in table
    page = client.get(f"/workloads/{service.pk}").content.decode()
    assert "<b>At zero</b>" in page
    assert "Why it waits" not in page
    assert f"/workloads/{service.pk}/ways" not in page
