"""Cordoning a node from its page, and what emptying it would do."""

from __future__ import annotations

import pytest
from django.urls import reverse

from access.roles import Role
from scheduler import models
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(scene):
    """A node with work on it."""
    held = models.Replica.objects.filter(ended_at=None, node__isnull=False).first()
    return held.node


def test_a_node_is_cordoned_and_takes_work_again(client, admin, node):
    client.force_login(admin)
    # When it is cordoned from its page
    answer = client.post(
        reverse("node_cordon"), {"node": node.pk, "cordoned": "yes"}, follow=True
    ).content.decode()
    # Then it says so, the way back stands there, and it is on record
    node.refresh_from_db()
    assert node.cordoned
    assert f"{node.name} gets no new work" in answer
    assert "Let new work come" in answer
    assert models.AuditEntry.objects.filter(action="node.cordon").exists()
    # And when it is let go
    client.post(reverse("node_cordon"), {"node": node.pk})
    node.refresh_from_db()
    assert not node.cordoned


def test_emptying_a_node_is_tried_out_and_changes_nothing(client, admin, node):
    client.force_login(admin)
    here = models.Workload.objects.filter(replicas__node=node, replicas__ended_at=None).first()
    said = client.get(reverse("node_emptying"), {"node": node.pk}).content.decode()
    assert here.name in said
    assert "would go on elsewhere" in said or "would wait" in said
    node.refresh_from_db()
    assert not node.cordoned


def test_only_who_manages_nodes_has_the_buttons_and_the_doors(client, node):
    client.force_login(person("lin", Role.RESEARCHER, project="nlp-lab"))
    assert "Cordon: no new work" not in client.get(reverse("nodes")).content.decode()
    for number in (node.pk, 999_999):
        assert client.post(reverse("node_cordon"), {"node": number}).status_code == 404
        assert client.get(reverse("node_emptying"), {"node": number}).status_code == 404
    node.refresh_from_db()
    assert not node.cordoned


@pytest.mark.parametrize("number", ["999999", "none", ""])
def test_a_node_that_is_not_there_is_404(client, admin, scene, number):
    client.force_login(admin)
    assert client.post(reverse("node_cordon"), {"node": number}).status_code == 404
    assert client.get(reverse("node_emptying"), {"node": number}).status_code == 404
