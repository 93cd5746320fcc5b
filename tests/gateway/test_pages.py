"""The Inference pages: what stands there, keys that are shown once, scaling that is changed."""

from __future__ import annotations

import re

import pytest

from access.models import AccessRule, User
from scheduler import models
from tests.gateway.conftest import now


@pytest.fixture
def admin(client, town):
    client.force_login(User.objects.create_superuser("ada", password="x"))
    return client


def text_of(answer):
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_the_list_says_running_of_the_range(admin, town):
    chat = town.service("chat", low=0, high=3)
    models.Workload.objects.filter(pk=chat.pk).update(desired_replicas=0)
    page = text_of(admin.get("/inference"))
    assert "0/0-3" in page
    assert "At zero" in page


def test_one_service_with_its_series(admin, town):
    chat = town.service("chat", low=1, high=3, threshold=2)
    models.ScalingPoint.objects.create(
        workload=chat, at=now(), desired=2, replicas=2, ready=1, value_milli=2100, target_milli=1400
    )
    answer = admin.get(f"/inference/{chat.pk}")
    page = text_of(answer)
    assert "prod-inference / chat" in page
    assert '"desired": [2]' in answer.content.decode()
    assert "0/1-3" in page


def test_scaling_is_changed_and_the_change_is_audited(admin, town):
    chat = town.service("chat", low=1, high=3)
    form = {
        "min_replicas": 0,
        "max_replicas": 2,
        "metric": "concurrency",
        "threshold": 5,
        "hard_limit": 4,
        "model_names": "a, b",
        "stable_window_s": 30,
        "zero_retention_s": 0,
        "scale_down_delay_s": 0,
        "request_timeout_s": 60,
    }
    assert admin.post(f"/inference/{chat.pk}", form).status_code == 302
    service = models.InferenceService.objects.get(workload=chat)
    assert (service.threshold, service.hard_limit, service.model_names) == (5, 4, ["a", "b"])
    assert models.AuditEntry.objects.filter(action="service.scaling").count() == 1
    # And what can't be is said at its field
    answer = admin.post(f"/inference/{chat.pk}", {**form, "metric": "latency"})
    assert "zero" in text_of(answer)


def test_a_key_is_shown_once(admin, town):
    project = town.place.projects["dev-chat"]
    form = {
        "scope": f"project-{project.pk}",
        "name": "team",
        "requests_per_minute": 0,
        "tokens_per_day": 0,
        "budget": "1.50",
    }
    page = text_of(admin.post("/inference/keys", form))
    secret = re.search(r"tg-[\w-]{40,}", page)
    assert secret
    assert models.GatewayKey.objects.get().budget_micro == 1_500_000
    page = text_of(admin.get("/inference/keys"))
    assert secret[0] not in page
    assert secret[0][:10] in page
    admin.post(f"/inference/keys/{models.GatewayKey.objects.get().pk}/revoke")
    assert "revoked" in text_of(admin.get("/inference/keys"))


def test_services_and_keys_of_others_are_not_there(client, town):
    chat = town.service("chat")
    town.key(name="theirs")
    reader = User.objects.create_user("bo", password="x")
    AccessRule.objects.create(
        user=reader, role="ml_engineer", project=town.place.projects["dev-chat"]
    )
    client.force_login(reader)
    assert client.get(f"/inference/{chat.pk}").status_code == 404
    assert "theirs" not in text_of(client.get("/inference/keys"))
    assert (
        "chat" not in text_of(client.get("/inference")).split("Inference", 3)[-1].split("Idle")[0]
    )
    key = models.GatewayKey.objects.get()
    assert client.post(f"/inference/keys/{key.pk}/revoke").status_code == 404
