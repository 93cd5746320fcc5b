"""What every test run needs: a Redis of its own, profiles, and a word on what was left out."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import redis
from django.apps import apps
from django.db.models.signals import post_migrate
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from dashboard.launch import resp
from dashboard.launch.processes import spawn
from dashboard.launch.redis import plan_redis
from scheduler.apps import APPEND_ONLY
from tests.kubernetes.build import is_built

pytest_plugins = ["tests.product", "tests.browser"]

ON_POSTGRES = os.environ.get("TIDEGATE_TEST_DATABASE") == "postgres"
DATABASE_FIXTURES = frozenset({"db", "transactional_db", "django_db_serialized_rollback"})
FULL = pytest.StashKey[bool]()
FOLDER = pytest.StashKey[Path]()
REDIS = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run everything at full count")


def pytest_configure(config):
    is_full = config.getoption("--full") or os.environ.get("TIDEGATE_TEST_FULL") == "1"
    config.stash[FULL] = is_full
    folder = Path(tempfile.mkdtemp(prefix="tidegate-pytest-"))
    config.stash[FOLDER] = folder
    _choose_profile(is_full)
    _use_folder(folder)
    if not os.environ.get("REDIS_URL"):
        config.stash[REDIS] = _start_redis(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    """Let objects that complain when they are dropped do so now.

    Schemathesis imports at this point. Where Python 3.11 prints a traceback while it parses a module,
    which a complaint from the garbage collector does, parsing fails.
    """
    gc.collect()


def pytest_unconfigure(config):
    if REDIS in config.stash:
        config.stash[REDIS].terminate()
        config.stash[REDIS].wait(timeout=10)
    if FOLDER in config.stash:
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)


def _choose_profile(is_full):
    quiet = [HealthCheck.too_slow]
    hypothesis_settings.register_profile(
        "quick", max_examples=100, derandomize=True, deadline=None, suppress_health_check=quiet
    )
    hypothesis_settings.register_profile(
        "full", max_examples=2000, deadline=None, suppress_health_check=quiet, print_blob=True
    )
    hypothesis_settings.load_profile("full" if is_full else "quick")


def _use_folder(folder):
    """Point the settings at throw-away places, however pytest was started."""
    from django.conf import settings

    settings.DATA_DIR = folder
    settings.WORKLOADS_DIR = folder / "workloads"
    settings.WORKLOADS_DIR.mkdir()
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Hashed names need a collectstatic first.
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    settings.STATIC_ROOT = folder / "static"
    settings.STATIC_ROOT.mkdir()


def _start_redis(folder):
    from django.conf import settings

    from dashboard.settings import channel_layers

    redis = plan_redis(data=folder, first_port=0)
    process = spawn(redis.argv, cwd=folder, environment=os.environ, log=folder / "redis.log")
    deadline = time.monotonic() + 20
    while not resp.ping(redis.url):
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.exit(f"no Redis for the tests: {(folder / 'redis.log').read_text()[-500:]}")
        time.sleep(0.02)
    settings.REDIS_URL = settings.CELERY_BROKER_URL = redis.url
    settings.CHANNEL_LAYERS = channel_layers(redis.url)
    return process


# --- What is run, and what is left out ------------------------------------------------------------


def pytest_collection_modifyitems(config, items):
    if ON_POSTGRES:
        _keep_what_needs_a_database(config, items)
    reasons = _reasons_to_skip(config)
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def _keep_what_needs_a_database(config, items):
    kept = [item for item in items if _needs_database(config, item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _needs_database(config, item):
    if item.get_closest_marker("product"):
        return config.stash[FULL]
    if item.get_closest_marker("postgres") or item.get_closest_marker("django_db"):
        return True
    return bool(DATABASE_FIXTURES & set(item.fixturenames))


def _reasons_to_skip(config):
    reasons = {}
    if not config.stash[FULL]:
        reasons["full"] = "only with --full"
    if not os.environ.get("TIDEGATE_CHROMIUM") and not shutil.which("chromium"):
        reasons["browser"] = "no Chromium: install it, for instance by apt-get install chromium"
    if not ON_POSTGRES:
        reasons["postgres"] = "runs on PostgreSQL, by manage.py test"
    if not is_built():
        reasons["kubernetes"] = "no API server here: tests/kubernetes/build.py builds one"
    if not _has_gpu():
        reasons["gpu"] = "no NVIDIA card in this machine"
    return reasons


@pytest.fixture(scope="session")
def api_server(tmp_path_factory):
    """Give a real API server, empty but for the deployment's own objects."""
    from tests.kubernetes.server import ApiServer

    server = ApiServer(tmp_path_factory.mktemp("api-server"))
    yield server
    server.close()


def _has_gpu():
    found = shutil.which("nvidia-smi")
    if not found:
        return False
    listed = subprocess.run([found, "-L"], capture_output=True, text=True, check=False)
    return listed.returncode == 0 and "GPU" in listed.stdout


def pytest_terminal_summary(terminalreporter, config):
    """Leave the counts and the reasons for `manage.py test`, which says them last."""
    notes = os.environ.get("TIDEGATE_TEST_NOTES")
    if not notes or hasattr(config, "workerinput"):
        return
    stats = terminalreporter.stats
    left_out: dict[str, int] = {}
    for report in stats.get("skipped", []):
        reason = _reason_of(report)
        if reason == "runs on PostgreSQL, by manage.py test" and _has_postgres():
            continue
        left_out[reason] = left_out.get(reason, 0) + 1
    counts = {name: len(stats.get(name, [])) for name in ("passed", "failed", "skipped", "error")}
    counts["failed"] += counts.pop("error")
    Path(notes).write_text(json.dumps({"counts": counts, "left_out": left_out}))


def _reason_of(report):
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ")


def _has_postgres():
    return bool(os.environ.get("TIDEGATE_TEST_POSTGRES_URL"))


@pytest.fixture(scope="session")
def _counters():
    from django.conf import settings

    client = redis.Redis.from_url(settings.REDIS_URL)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def count_from_zero(request):
    """Drop the counters of requests and attempts: Redis goes on, while ids of rows begin again."""
    if not DATABASE_FIXTURES & set(request.fixturenames):
        return
    client = request.getfixturevalue("_counters")
    if found := client.keys("tidegate:count:*"):
        client.delete(*found)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix):
    """Let tests empty the audit log between them; tests/scheduler/test_append_only.py has its own."""
    post_migrate.disconnect(sender=apps.get_app_config("scheduler"), dispatch_uid=APPEND_ONLY)


@pytest.fixture(scope="session")
def django_db_keepdb(request):
    """Leave the test's database on PostgreSQL: the whole server goes with the run.

    Gateways in threads may still hold connections to it, and a database in use can't be dropped.
    """
    return ON_POSTGRES or request.config.getvalue("reuse_db")
