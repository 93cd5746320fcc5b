"""What verify leaves when it is ended in the middle: nothing, or what the next run clears."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.product import ROOT, wait_until

pytestmark = pytest.mark.product


def marked_processes(product):
    """Return the processes of this machine that belong to some verification of a product."""
    found = []
    for process in psutil.process_iter(["environ"]):
        environment = process.info["environ"] or {}
        own = any(value.startswith(str(product.data)) for value in environment.values())
        if own and "VERIFICATION" in environment:
            found.append(process.pid)
    return found


@pytest.fixture
def verifying(empty_product, request):
    """A verify in whose scratch pool work already runs: number 5, or the one that a test names."""
    before = set(marked_processes(empty_product))
    process = subprocess.Popen(
        [sys.executable, "manage.py", "verify", getattr(request, "param", "5")],
        cwd=ROOT,
        env=empty_product.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    wait_until(
        lambda: set(marked_processes(empty_product)) - before,
        within_s=60,
        what="work in the scratch pool",
    )
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def names_on_quota_page(product):
    with product.signed_in() as client:
        return client.get("/quotas").text


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_removes_pool_work_and_user(empty_product, verifying, signum):
    verifying.send_signal(signum)
    assert verifying.wait(timeout=120) != 0
    assert marked_processes(empty_product) == []
    left = empty_product.manage("shell", "--no-imports", "-c", LEFT)
    assert left.stdout.split() == ["0", "0", "1", "0"], left.stdout + left.stderr


def test_what_a_killed_run_left_is_cleared_by_the_next(empty_product, verifying):
    # Given a verify that was killed outright, so that its work runs on
    os.killpg(verifying.pid, signal.SIGKILL)
    verifying.wait()
    assert marked_processes(empty_product) != []
    # When another is run
    done = empty_product.manage("verify", "6")
    # Then it passes, and nothing is left of either (the product clears too, whoever comes first)
    assert done.returncode == 0, done.stdout
    assert marked_processes(empty_product) == []
    left = empty_product.manage("shell", "--no-imports", "-c", LEFT)
    assert left.stdout.split() == ["0", "0", "1", "0"], left.stdout + left.stderr


@pytest.mark.parametrize("verifying", ["7"], indirect=True)  # the one that takes longest
def test_two_do_not_run_at_once(empty_product, verifying):
    done = empty_product.manage("verify", "3")
    assert done.returncode != 0
    assert "Another verify runs here" in done.stderr


#: Counts pools, departments, users (the administrator) and replicas.
LEFT = """
from django.contrib.auth import get_user_model
from scheduler import models
counted = (models.NodePool, models.Department, get_user_model(), models.Replica)
print(*(model.objects.count() for model in counted))
"""
