"""The setting that hides what others hold: no amount of theirs, no figure of a department seen in part."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse
from django.utils import timezone

from access.models import AccessRule, User
from access.roles import Role
from access.scopes import visibility_of
from dashboard import live_wire
from scheduler import models
from scheduler.core.explain import Remedy, Way
from scheduler.core.vocabulary import Level
from scheduler.queries import devices, nodes, overview, reasons, remedies, routes
from scheduler.queries.phrases import plain
from scheduler.queries.reasons_for import why_for
from scheduler.queries.visibility import Visibility
from tests.downloads import body_of

pytestmark = pytest.mark.django_db
#: Found nowhere else on a page.
HELD, LIMIT, FREE = 13_370, 14_210, 3_190
BLOCKED = {
    "code": "OverLimit",
    "level": "department",
    "resource": "gpu",
    "allocated": HELD,
    "limit": LIMIT,
    "requested": 1_000,
}


def hide():
    models.Cluster.objects.update_or_create(pk=1, defaults={"show_others_in_use": False})


@pytest.fixture
def blocked(scene, researcher):
    """Work of nlp-lab that waits for the limit of its department, with its decision and event."""
    workload = models.Workload.objects.get(name="probe-7b")
    models.Nomination.objects.filter(workload=workload).delete()
    models.Workload.objects.filter(pk=workload.pk).update(
        reason_code="OverLimit", reason=BLOCKED, phase="pending"
    )
    denial = models.Decision.objects.create(
        verb="deny",
        at=timezone.now(),
        project=workload.project,
        workload=workload,
        params=BLOCKED,
        cycle=models.Decision.objects.order_by("-id").first().cycle,
    )
    models.Decision.objects.filter(verb="reclaim").update(
        params={
            "checks": [
                {
                    "level": "department",
                    "have_mgpu": HELD,
                    "request_mgpu": 1_000,
                    "bound_mgpu": LIMIT,
                    "holds": True,
                }
            ]
        }
    )
    return workload, denial


def doors(workload, denial):
    """Every page and endpoint that says why it waits or what was decided."""
    reclaim = models.Decision.objects.get(verb="reclaim")
    return [
        reverse("overview"),
        reverse("workloads"),
        reverse("workload", args=[workload.pk]),
        reverse("decisions"),
        reverse("decision", args=[denial.pk]),
        reverse("decision", args=[reclaim.pk]),
        reverse("project", args=["nlp-lab"]),
        f"/api/v1/workloads/{workload.pk}",
        "/api/v1/workloads",
        "/api/v1/decisions",
        f"/api/v1/decisions/{denial.pk}",
        f"/api/v1/decisions/{reclaim.pk}",
        "/api/v1/waiting",
    ]


def telling(client, where):
    """Which of the addresses tell a figure of the department."""
    found = set()
    for address in where:
        answer = client.get(address)
        text = body_of(answer).decode()
        if any(figure in text for figure in ("13.37", "14.21", str(HELD), str(LIMIT))):
            found.add(address)
    return found


def test_figures_of_the_department_that_blocks_are_told_unless_the_setting_hides_them(
    blocked, client, researcher
):
    where = doors(*blocked)
    client.force_login(researcher)
    assert reverse("workload", args=[blocked[0].pk]) in telling(client, where)
    hide()
    assert telling(client, where) == set()
    said = client.get(reverse("workload", args=[blocked[0].pk])).content.decode()
    assert "has no room for the" in said


def test_live_pages_hold_to_it_too(blocked, researcher):
    def sent():
        visible = visibility_of(user=researcher)
        found = overview.read_overview(visible=visible, now=timezone.now())
        return json.dumps(live_wire.overview_to_wire(found))

    assert "13.37" in sent()
    hide()
    assert "13.37" not in sent()


def test_who_sees_the_whole_department_is_told_all_the_same(blocked, client):
    hide()
    head = User.objects.create_user("head")
    AccessRule.objects.create(
        user=head,
        role=Role.DEPARTMENT_ADMIN,
        department=models.Department.objects.get(name="Research"),
    )
    client.force_login(head)
    assert reverse("workload", args=[blocked[0].pk]) in telling(client, doors(*blocked))


@pytest.mark.parametrize(
    ("code", "numbers"),
    [
        ("InsufficientResources", {"free": FREE, "requested": 4_000}),
        ("Fragmented", {"free": FREE, "largest": HELD, "requested": 500}),
        (
            "NonPreemptibleOverQuota",
            {"level": "department", "allocated": HELD, "quota": LIMIT, "requested": 500},
        ),
        ("OverLimit", BLOCKED),
    ],
)
def test_no_reason_has_a_figure_that_comes_of_others(scene, code, numbers):
    project = models.Project.objects.get(name="nlp-lab")

    def said(*, hides_others):
        visible = Visibility(project_ids=frozenset({project.pk}), hides_others=hides_others)
        return why_for(visible=visible, code=code, numbers=numbers, project=project).text

    figures = ("3.19", "13.37", "14.21")
    assert any(figure in said(hides_others=False) for figure in figures)
    assert not any(figure in said(hides_others=True) for figure in figures)
    assert said(hides_others=True)


def test_figures_of_ones_own_project_stay(scene):
    numbers = {**BLOCKED, "level": "project"}
    told = reasons.why_waiting(code="OverLimit", numbers=numbers, queue="nlp-lab", told=False)
    assert "13.37 of 14.21" in told.text


def test_a_remedy_at_the_department_has_no_figure(blocked):
    workload = models.Workload.objects.select_related("project__department").get(pk=blocked[0].pk)
    remedy = Remedy(way=Way.LIMIT, level=Level.DEPARTMENT, value=LIMIT)
    for hides, expected in (
        (False, "Raise the limit of Research to 14.21."),
        (True, "Raise the limit of Research."),
    ):
        visible = Visibility(project_ids=frozenset({workload.project_id}), hides_others=hides)
        assert plain(remedies._in_words(remedy, workload, visible)) == expected


def test_devices_and_nodes_tell_neither_what_others_hold_nor_what_is_free(scene, researcher):
    hide()
    visible = visibility_of(user=researcher)
    tokens = models.Workload.objects.get(name="tok-bpe").replicas.get().holdings.get()
    device = devices.read_device(
        visible=visible, node_name=tokens.device.node.name, index=tokens.device.index
    )
    assert [process.mgpu for process in device.processes] == [500]
    assert (device.others_mgpu, device.free_mgpu) == (0, None)
    for row in nodes.list_nodes(visible=visible):
        assert row.free_mgpu is None
        assert all(part.workload_id for each in row.devices for part in each.held)


def test_the_gateways_answer_holds_to_it_too(blocked):
    workload = models.Workload.objects.select_related("project__department").get(pk=blocked[0].pk)
    assert "13.37" in routes._why(workload)
    hide()
    assert "13.37" not in routes._why(workload)
