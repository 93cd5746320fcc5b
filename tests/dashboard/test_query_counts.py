"""How many queries each page makes, with the counts that it had; a rise fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from scheduler import models

BASELINE = Path(__file__).resolve().parents[1] / "query_counts.json"
COUNTS: dict[str, int] = json.loads(BASELINE.read_text(encoding="utf-8"))

pytestmark = pytest.mark.django_db


def address(name):
    if name == "workload":
        return reverse(name, args=[models.Workload.objects.get(name="llama-sft").pk])
    if name == "decision":
        return reverse(name, args=[models.Decision.objects.get(verb="reclaim").pk])
    return reverse(name)


def count(client, name):
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address(name)).status_code == 200
    return len(queries)


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_a_page_makes_no_more_queries_than_before(scene, client, admin, name):
    client.force_login(admin)
    client.get(address(name))
    assert count(client, name) <= COUNTS[name]


@pytest.mark.parametrize("name", ["overview", "workloads", "nodes", "quotas"])
def test_the_number_of_queries_does_not_grow_with_the_cluster(scene, client, admin, name):
    """Given a page's queries, when nodes and workloads are added, then it makes as many."""
    client.force_login(admin)
    client.get(address(name))
    before = count(client, name)
    for number in range(4):
        node = models.Node.objects.create(pool=scene, name=f"more-{number}", gpu_model="H100")
        models.Device.objects.create(node=node, index=0, model="H100")
        first = models.Workload.objects.filter(name="seg-xl").get()
        first.pk = None
        first.name = f"more-{number}"
        first.save()
    assert count(client, name) == before
