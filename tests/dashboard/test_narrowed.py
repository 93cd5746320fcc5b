"""Lists narrowed by what stands in the address, and the search across kinds."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from access.roles import Role
from scheduler import models
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(client, admin):
    client.force_login(admin)
    return client


def rows_of(client, address):
    text = client.get(address).content.decode()
    return set(re.findall(r'<td[^>]*><a class="nm" href="/workloads/\d+">([^<]+)</a>', text))


def test_only_what_idles_is_found(scene, pages):
    idle = models.Workload.objects.filter(replicas__idle=True).values_list("name", flat=True)
    assert rows_of(pages, "/workloads?idle=1") == set(idle)


def test_only_what_one_person_submitted_is_found(scene, pages):
    models.Workload.objects.filter(name="dock-77").update(submitted_by="lin")
    assert rows_of(pages, "/workloads?owner=lin") == {"dock-77"}
    assert "No workload matches these filters." in pages.get("/workloads?owner=no").content.decode()


def test_a_search_finds_a_decision_by_its_number(scene, pages):
    decision = models.Decision.objects.get(verb="reclaim")
    text = pages.get(f"/search?q={decision.pk}").content.decode()
    assert reverse("decision", args=[decision.pk]) in text
    assert "Nothing is called" in pages.get("/search?q=99999999999999999999").content.decode()


def test_a_search_finds_people_for_those_who_govern_them(scene, client, admin):
    person("lin-of-nlp", Role.RESEARCHER, project="nlp-lab")
    client.force_login(admin)
    assert "lin-of-nlp" in client.get("/search?q=of-nlp").content.decode()


def test_who_governs_nobody_finds_no_people_and_no_foreign_decision(scene, client, researcher):
    person("wu-of-dev", Role.RESEARCHER, project="dev-train")
    deny = models.Decision.objects.get(verb="deny", project__name="vision-lab")
    client.force_login(researcher)
    assert 'href="/manage/people' not in client.get("/search?q=of-dev").content.decode()
    text = client.get(f"/search?q={deny.pk}").content.decode()
    assert reverse("decision", args=[deny.pk]) not in text


def test_the_quota_page_keeps_unit_and_choice_in_its_address(scene, pages):
    text = pages.get("/quotas?unit=pct&only=borrowing").content.decode()
    assert 'data-unit="pct"' in text
    assert 'data-only="borrowing"' in text
    text = pages.get("/quotas?unit=x&only=y").content.decode()
    assert 'data-unit="gpu"' in text
    assert 'data-only=""' in text


def test_a_department_that_is_promised_too_much_is_named(scene, pages):
    told = "add up to"
    assert told not in pages.get("/quotas").content.decode()
    models.DepartmentQuota.objects.filter(department__name="Research").update(quota_mgpu=9000)
    assert told in pages.get("/quotas").content.decode()
