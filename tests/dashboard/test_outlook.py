"""The submit form says what would become of what it holds, and begins from what was submitted before."""

from __future__ import annotations

import pytest
from django.urls import reverse

from access.roles import Role
from scheduler import models
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db
ASKED = {
    "name": "",
    "kind": "training",
    "gpu": "0.10",
    "min_replicas": "1",
    "max_replicas": "1",
    "command": "",
    "env": "",
    "priority": "",
    "preemptible": "",
    "grace_s": "30",
}


def project(name="nlp-lab"):
    return models.Project.objects.get(name=name)


def outlook(client, **fields):
    asked = {**ASKED, "project": project().pk, **fields}
    answer = client.post(reverse("workload_outlook"), asked)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def lin(client, scene):
    client.force_login(person("lin", Role.RESEARCHER, project="nlp-lab"))
    return client


def test_before_a_name_or_a_command_is_typed_it_says_what_would_happen(lin):
    before = models.Workload.objects.count()
    assert "It would start now." in outlook(lin)
    # And nothing is written
    assert models.Workload.objects.count() == before


def test_what_can_never_run_is_said_with_its_reason(lin):
    said = outlook(lin, gpu="16")
    assert "As it is, it could never run." in said


def test_what_is_mistyped_is_named_instead(lin):
    said = outlook(lin, gpu="much")
    assert "once these are right" in said
    assert "GPUs a replica" in said
    assert "It would" not in said


def test_who_may_not_serve_is_told_the_way_out(lin):
    said = outlook(lin, kind="inference")
    assert "Send a request to serve" in said


def test_another_like_it_begins_with_what_was_asked(lin):
    # Given a workload of the project that asks for something of its own
    former = models.Workload.objects.filter(project=project(), kind="training").first()
    former.command, former.env = ["python", "train.py", "--rate", "0.1"], {"SEED": "7"}
    former.priority, former.preemptible, former.preemptible_set = 65, False, True
    former.save()
    # When another like it is begun
    page = lin.get(reverse("workload_new"), {"like": former.pk}).content.decode()
    # Then all of it stands in the form, but for the name
    assert "python train.py --rate 0.1" in page
    assert "SEED=7" in page
    assert '<option value="65" selected>' in page
    assert '<option value="no" selected>' in page
    assert former.name not in page
    assert f'<option value="{project().pk}" selected>' in page


def test_what_one_may_not_see_can_be_no_beginning(lin):
    foreign = models.Workload.objects.exclude(project=project()).first()
    for number in (foreign.pk, 999_999):
        assert lin.get(reverse("workload_new"), {"like": number}).status_code == 404


def test_with_several_pools_the_chosen_one_is_kept(client, scene, admin):
    second = models.NodePool.objects.create(name="second")
    client.force_login(admin)
    page = client.get(reverse("workload_new"), {"pool": "second"}).content.decode()
    assert '<option value="second" selected>' in page
    fields = {**ASKED, "name": "there", "command": "sleep 1", "project": project().pk}
    assert client.post(reverse("workload_new"), fields | {"pool": "second"}).status_code == 302
    assert models.Workload.objects.get(name="there").pool == second
    # And an unknown one is refused at its field
    answer = client.post(reverse("workload_new"), fields | {"name": "else", "pool": "third"})
    assert "third is not one of the available choices" in answer.content.decode()
