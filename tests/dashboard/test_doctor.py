"""``manage.py doctor``: each thing that is wrong is named with what to do, and decides the exit code."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from dashboard import doctor, readiness
from scheduler import events, models
from scheduler.kubernetes.link import ApiLink
from scheduler.tick import engine_room
from tests.kubernetes.standin import Cluster, serving

pytestmark = pytest.mark.django_db


@pytest.fixture
def installation(scene, settings, tmp_path, monkeypatch):
    """A data folder as `up` leaves it, and a scheduler that ticks."""
    settings.DATA_DIR = tmp_path
    settings.WORKLOADS_DIR = tmp_path / "workloads"
    settings.SECRET_KEY = "k" * 50
    settings.ALLOWED_HOSTS = ["localhost"]
    (tmp_path / "workloads/engine/replicas").mkdir(parents=True)
    (tmp_path / "workloads/owner").write_text(str(models.Cluster.objects.one().uid))
    (tmp_path / "secret.key").touch(mode=0o600)
    models.Cluster.objects.update(last_cycle_at=timezone.now())
    models.Node.objects.update(engine="fake")
    monkeypatch.setattr(doctor, "_worker_answers", lambda: False)
    return tmp_path


def told(capsys, *words):
    """The exit code and what was said."""
    try:
        call_command("doctor", *words)
    except SystemExit as end:
        return end.code, capsys.readouterr().out
    return 0, capsys.readouterr().out


def test_a_sound_installation_has_nothing_wrong(installation, capsys):
    code, said = told(capsys)
    assert code == 0
    assert "WRONG" not in said
    for name in (
        "settings",
        "folders",
        "disk",
        "database",
        "migrations",
        "redis",
        "clock",
        "engine",
    ):
        assert f"{name}: " in said
    assert "worker and beat: cycle" in said


def test_json_has_the_same_findings(installation, capsys):
    code, said = told(capsys, "--json")
    document = json.loads(said)
    assert (code, document["is_well"]) == (0, True)
    assert {"name", "says", "do", "is_well", "is_warning", "mark"} == set(document["findings"][0])


def test_a_scheduler_that_is_silent_is_told_with_who_is_away(installation, capsys, monkeypatch):
    models.Cluster.objects.update(last_cycle_at=timezone.now() - timedelta(minutes=5))
    code, said = told(capsys)
    assert code == 1
    assert "WRONG worker: no tick for 30" in said
    assert "read worker.log" in said
    # Given a worker that answers, then it is the timer
    monkeypatch.setattr(doctor, "_worker_answers", lambda: True)
    assert "WRONG beat: no tick for" in told(capsys)[1]


def test_redis_away_is_told_without_its_password_and_the_rest_is_still_looked_at(
    installation, settings, capsys
):
    settings.REDIS_URL = "redis://:secret-word@127.0.0.1:1/0"
    code, said = told(capsys)
    assert code == 1
    assert "WRONG redis: does not answer" in said
    assert "secret-word" not in said
    assert "engine: " in said


def test_a_clock_that_is_off_is_told(installation, capsys, monkeypatch):
    off = timezone.now() + timedelta(seconds=90)
    monkeypatch.setattr(doctor, "_redis_time", lambda: off)
    code, said = told(capsys)
    assert code == 1
    assert "differs from that of Redis by -" in said


def test_unsafe_settings_and_open_keys_are_told(installation, settings, capsys):
    settings.DEBUG = True
    settings.SECRET_KEY = "short"
    settings.ALLOWED_HOSTS = ["*"]
    settings.PUBLIC_URL = "https://gpu.example.org"
    os.chmod(installation / "secret.key", 0o644)
    code, said = told(capsys)
    assert code == 1
    for words in ("debug mode is on", "secret key is short", "every host name", "plain HTTP too"):
        assert words in said
    assert f"chmod 600 {installation / 'secret.key'}" in said


def test_little_room_is_told(installation, capsys, monkeypatch):
    monkeypatch.setattr(
        doctor.shutil, "disk_usage", lambda _place: (100 * doctor.GIB, 0, doctor.GIB)
    )
    code, said = told(capsys)
    assert code == 1
    assert "1.0 GiB of 100 GiB are free for workloads" in said


def test_records_that_are_nobodys_and_rows_without_a_record_are_told(installation, capsys):
    # Given a running replica of the local engine without a record, and a record of nobody
    replica = models.Replica.objects.filter(phase="running").first()
    models.Node.objects.filter(pk=replica.node_id).update(engine="local")
    models.Replica.objects.filter(node=replica.node).exclude(pk=replica.pk).update(phase="starting")
    (installation / "workloads/engine/replicas/987654-1").mkdir()
    code, said = told(capsys)
    assert code == 1
    assert f"1 running replicas have no record here: {replica.pk}-{replica.attempt}" in said
    assert "LOOK  engine: 1 records belong to no living replica: 987654-1" in said
    # And the folder of another database
    (installation / "workloads/owner").write_text("another")
    assert "belongs to another database" in told(capsys)[1]


def test_missing_migrations_are_told(installation, capsys, monkeypatch):
    class One:
        app_label, name = "scheduler", "0999_more"

    monkeypatch.setattr(readiness.MigrationExecutor, "migration_plan", lambda *_: [(One(), False)])
    monkeypatch.setattr(readiness, "_applied", [])  # what this process found before
    code, said = told(capsys)
    assert code == 1
    assert "1 not applied: scheduler 0999_more" in said


def test_without_a_database_the_rest_is_told(installation, capsys, monkeypatch):
    away = readiness.Finding(name="database", is_well=False, says="does not answer", do="Start it.")
    monkeypatch.setattr(readiness, "check_database", lambda: away)
    code, said = told(capsys)
    assert code == 1
    assert "WRONG database: does not answer" in said
    assert "redis: answers" in said
    assert events.client().ping()


def test_kubernetes_is_looked_at_where_it_is_used(installation, capsys, settings, monkeypatch):
    pytest.importorskip("kubernetes", reason="the Kubernetes client is not installed")
    settings.KUBERNETES_IMAGE = "image"
    cluster = Cluster()
    with serving(cluster) as url:
        monkeypatch.setattr(engine_room, "kubernetes_link", lambda: ApiLink(url=url))
        code, said = told(capsys)
        assert code == 0
        assert "kubernetes: answers; work runs in namespace tidegate-work" in said
        asked = [path for _, path in cluster.asked]
        assert asked == ["namespaces/tidegate-work/pods", "nodes"]
        # When it is away
        cluster.is_down = True
        code, said = told(capsys)
    assert code == 1
    assert "WRONG kubernetes: Kubernetes says 503: the server is away" in said
    assert "rights.yaml" in said
