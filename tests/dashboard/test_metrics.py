"""Metrics: figures of the scene, who is told which, names in docs and dashboard; and readiness."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from access import tokens
from access.models import AccessRule, User
from access.roles import Role
from access.scopes import authority_of
from dashboard import metrics, readiness
from dashboard.metrics import FAMILIES
from scheduler import models
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db
BOARD = Path(settings.BASE_DIR) / "deploy/grafana/tidegate.json"
DOCS = Path(settings.BASE_DIR) / "docs/metrics.md"


def bearer(user, **terms):
    """A client without a session that sends a token of ``user``."""
    made = tokens.create_own(
        terms=tokens.TokenTerms(name="scrape", days=1, **terms),
        authority=authority_of(user=user, door="page"),
        now=timezone.now(),
    )
    return Client(headers={"authorization": f"Bearer {made.secret}"})


def scraped(client):
    """Every sample by name and labels, as Prometheus itself would read them."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def labels_of(client):
    text = client.get("/metrics").content.decode()
    return set(re.findall(r'(?:department|project)="([^"]*)"', text))


def test_the_figures_are_those_of_the_pages(scene, admin):
    told = scraped(bearer(admin))

    assert told["tidegate_gpus_held", "Research", "main", "nlp-lab"] == 6.25
    assert told["tidegate_gpus_guaranteed", "Research", "main", "nlp-lab"] == 10
    assert told["tidegate_gpus_borrowed", "Dev and test", "dev-train", "main"] == 3
    assert told["tidegate_pool_gpus", "main"] == 64
    held = sum(value for key, value in told.items() if key[0] == "tidegate_gpus_held")
    assert told["tidegate_pool_gpus_held", "main"] == held
    waiting = models.Workload.objects.filter(phase="pending").count()
    by_reason = [value for key, value in told.items() if key[0] == "tidegate_workloads_waiting"]
    assert sum(by_reason) == waiting > 0
    assert told["tidegate_redis_up",] == told["tidegate_database_up",] == 1
    assert told["tidegate_cycles_total",] == 90_112


def test_who_may_see_a_part_is_told_of_that_part_alone(scene, admin):
    lin = person("lin", Role.RESEARCHER, project="nlp-lab")
    dan = User.objects.create_user("dan", password="someone-of-tests")
    research = models.Department.objects.get(name="Research")
    AccessRule.objects.create(user=dan, role=Role.DEPARTMENT_ADMIN, department=research)

    # A member of a project reads its department's name, and no figure of it
    assert labels_of(bearer(lin)) == {"Research", "nlp-lab"}
    names = {key[0] for key in scraped(bearer(lin))}
    assert "tidegate_department_gpus_held" not in names
    assert "tidegate_pool_gpus_held" not in names
    projects = set(
        models.Project.objects.filter(department=research).values_list("name", flat=True)
    )
    assert labels_of(bearer(dan)) == {"Research", *projects}
    signed_in = Client()
    signed_in.force_login(lin)
    assert labels_of(signed_in) == {"Research", "nlp-lab"}
    # And one without any role of nothing but the product itself
    nobody = bearer(User.objects.create_user("new", password="someone-of-tests"))
    assert labels_of(nobody) == set()


def test_without_a_token_only_the_addresses_that_are_set_are_answered(scene, settings):
    # Given nobody is named, and an address that is not this one's
    assert Client().get("/metrics").status_code == 401
    settings.METRICS_NETWORKS = ["10.0.0.0/8"]
    assert Client().get("/metrics").status_code == 401
    # Then one that is named reads the whole cluster, unless a proxy passes others on from there
    settings.METRICS_NETWORKS = ["127.0.0.0/8"]
    assert "Research" in labels_of(Client())
    passed_on = Client(headers={"x-forwarded-for": "203.0.113.9"})
    assert passed_on.get("/metrics").status_code == 401
    # And a token that is not in force is not made up for by the address
    stale = Client(headers={"authorization": "Bearer no-such-token"})
    assert stale.get("/metrics").status_code == 401


def test_decisions_are_counted_from_the_first_scrape_on(scene, admin, monkeypatch):
    monkeypatch.setattr(metrics, "_decisions", metrics._Decisions())
    client = bearer(admin)
    project = models.Project.objects.get(name="nlp-lab")

    def counted(verb):
        labels = sorted(("Research", "main", "nlp-lab", verb))
        return scraped(client).get(("tidegate_decisions_total", *labels))

    def decide(verb, *, times):
        for _ in range(times):
            models.Decision.objects.create(
                pool=scene, project=project, at=timezone.now(), verb=verb
            )

    # Given decisions of before, then they are not counted, but their series is there to rise from
    decide("place", times=3)
    assert counted("place") == 0
    # And those made since are, also once they are deleted
    decide("place", times=2)
    decide("evict", times=1)
    assert (counted("place"), counted("evict")) == (2, 1)
    models.Decision.objects.filter(project=project).delete()
    assert (counted("place"), counted("evict")) == (2, 1)


def test_a_scrape_costs_as_many_queries_however_much_work_there_is(scene, admin):
    client = bearer(admin)
    scraped(client)

    def count():
        with CaptureQueriesContext(connection) as queries:
            scraped(client)
        return len(queries)

    before = count()
    for number in range(6):
        row = models.Workload.objects.filter(name="seg-xl").get()
        row.pk, row.name = None, f"more-{number}"
        row.save()
    assert count() == before


def test_every_metric_is_documented_and_every_one_of_the_dashboard_exists():
    documented = set(re.findall(r"`(tidegate_[a-z_]+)`", DOCS.read_text(encoding="utf-8")))
    names = {family.sample_name for family in FAMILIES.values()}
    assert documented == names
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    asked = set(re.findall(r"tidegate_[a-z_]+", json.dumps(board["panels"])))
    asked |= set(re.findall(r"tidegate_[a-z_]+", json.dumps(board["templating"])))
    assert asked <= names
    # And labels in its questions are those of the metrics
    labels = {label for family in FAMILIES.values() for label in family.labels}
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            assert set(re.findall(r"(\w+)=~?\"", target["expr"])) <= labels


def test_what_is_scraped_is_what_is_documented(scene, admin):
    names = {family.sample_name for family in FAMILIES.values()}
    assert {key[0] for key in scraped(bearer(admin))} <= names


def test_ready_tells_strangers_names_and_those_who_scrape_what_is_wrong(scene, settings, client):
    settings.METRICS_NETWORKS = []
    well = client.get("/readyz")
    assert (well.status_code, well.content) == (200, b"ok database\nok migrations\nok redis\n")

    settings.REDIS_URL = "redis://:secret-word@127.0.0.1:1/0"
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.content == b"ok database\nok migrations\nNOT redis\n"

    settings.METRICS_NETWORKS = ["127.0.0.0/8"]
    told = client.get("/readyz").content.decode()
    assert "NOT redis: does not answer" in told
    assert "secret-word" not in told
    passed_on = client.get("/readyz", headers={"x-forwarded-for": "203.0.113.9"})
    assert passed_on.content == answer.content


def test_ready_looks_at_migrations_until_all_are_applied(scene, client, monkeypatch):
    looked = []

    def look():
        looked.append(1)
        is_well = len(looked) > 1
        return readiness.Finding(name="migrations", is_well=is_well, says="looked at")

    monkeypatch.setattr(readiness, "_applied", [])
    monkeypatch.setattr(readiness, "check_migrations", look)
    assert [client.get("/readyz").status_code for _ in range(4)] == [503, 200, 200, 200]
    assert len(looked) == 2


def test_without_redis_a_scrape_says_so_and_tells_the_rest(scene, admin, settings):
    settings.METRICS_NETWORKS = ["127.0.0.0/8"]
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    told = scraped(Client())
    assert told["tidegate_redis_up",] == 0
    assert told["tidegate_gpus_held", "Research", "main", "nlp-lab"] == 6.25


def test_answers_name_their_request(client, db):
    assert re.fullmatch(r"[0-9a-f]{32}", client.get("/readyz")["X-Request-ID"])
    named = client.get("/readyz", headers={"x-request-id": "proxy-0001"})
    assert named["X-Request-ID"] == "proxy-0001"
    odd = client.get("/readyz", headers={"x-request-id": "a b\tc"})
    assert odd["X-Request-ID"] != "a b\tc"
