"""The whole product on a cluster of three nodes: the article's verifications, and a node that is lost."""

from __future__ import annotations

import time

import httpx
import psutil
import pytest

from tests.product import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.product, pytest.mark.full]

LEASE_S = 20
PATIENCE_S = 300
#: The pool that the nodes join, and a project that may have all of it.
LAY_OUT = """
from django.utils import timezone
from scheduler.core.snapshot import QueueQuota
from scheduler.operations import nodes, quotas, units
from scheduler.operations.authority import SYSTEM
about = {"authority": SYSTEM, "now": timezone.now()}
values = QueueQuota(quota_mgpu=6000)
pool = nodes.create_pool(name="main", **about)
department = units.create_department(name="d", **about)
quotas.set_department_quota(department_id=department.pk, pool_id=pool.pk, values=values, **about)
project = units.create_project(department_id=department.pk, name="p", **about)
quotas.set_project_quota(project_id=project.pk, pool_id=pool.pk, values=values, **about)
print(project.pk)
"""


@pytest.fixture(scope="module")
def spread(ray_cluster, make_product):
    """Give a product whose nodes are those of the cluster, all three of them ready."""
    product = make_product(
        "--empty",
        TIDEGATE_RAY_ADDRESS=ray_cluster.address,
        TIDEGATE_RAY_TOKEN_FILE=ray_cluster.token_file,
        TIDEGATE_RAY_LEASE_S=str(LEASE_S),
        TIDEGATE_WORKLOADS=str(ray_cluster.folder / "shared"),
    )
    product.start()
    done = product.manage("shell", "--no-imports", "-c", LAY_OUT)
    assert done.returncode == 0, done.stderr
    product.project_id = int(done.stdout.split()[-1])
    product.token = product.manage("token", "admin").stdout.strip()
    with api(product) as client:
        wait_until(
            lambda: {row["name"] for row in listed(client, "/nodes")} == {"n1", "n2", "n3"},
            within_s=PATIENCE_S,
            what=f"three nodes\n{product.log('worker')[-2000:]}",
        )
        yield product
    product.close()


def api(product):
    headers = {"Authorization": f"Bearer {product.token}"}
    return httpx.Client(base_url=f"{product.address}/api/v1", headers=headers, timeout=60)


def listed(client, path):
    found = client.get(path).raise_for_status().json()
    return found["items"] if isinstance(found, dict) else found


@pytest.mark.timeout(3600)
def test_the_articles_verifications_pass_on_a_node_of_the_cluster(spread):
    done = spread.manage("verify", "3", "5", "--patience", "200", within_s=3000)
    assert done.returncode == 0, done.stdout + done.stderr


def trainings(mark):
    """Return the marks of the starts whose processes live on this machine, which has all three nodes."""
    found = set()
    for process in psutil.process_iter(["environ", "status"]):
        environ = process.info["environ"] or {}
        if environ.get("LOST") == mark and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.add(environ["TIDEGATE_REPLICA"])
    return found


@pytest.mark.timeout(1800)
def test_work_of_a_node_that_is_lost_goes_on_elsewhere_and_never_runs_twice(spread, ray_cluster):
    mark = spread.data.name + str(time.monotonic_ns())
    with api(spread) as client:
        # Given a training that has saved, on n2
        by_name = {row["name"]: row["id"] for row in listed(client, "/nodes")}
        for name in ("n1", "n3"):
            client.post(f"/nodes/{by_name[name]}/cordon").raise_for_status()
        body = {
            "name": "digits",
            "project_id": spread.project_id,
            "command": [
                "python",
                "{examples}/training/train_digits.py",
                *("--epochs", "100000", "--epoch-seconds", "1"),
            ],
            "request_mgpu": 1000,
            "env": {"LOST": mark},
            "grace_s": 5,
        }
        made = client.post("/workloads", json=body).raise_for_status().json()

        def read():
            return client.get(f"/workloads/{made['id']}").raise_for_status().json()

        wait_until(
            lambda: read()["phase"] == "running" and "n2" in read()["place"],
            within_s=PATIENCE_S,
            what="it runs on n2",
        )
        wait_until(
            lambda: (
                "checkpoint" in client.get(f"/workloads/{made['id']}/log").json().get("text", "")
            ),
            within_s=PATIENCE_S,
            what="it has saved",
        )
        (before,) = trainings(mark)
        for name in ("n1", "n3"):
            client.post(f"/nodes/{by_name[name]}/uncordon").raise_for_status()
        # When its node's own processes are killed at once
        ray_cluster.kill("n2")
        lost_at = time.monotonic()
        most = 1

        def runs_elsewhere():
            nonlocal most
            alive = trainings(mark)
            most = max(most, len(alive))
            return alive and before not in alive

        # Then it runs elsewhere, and at no moment did both run
        wait_until(runs_elsewhere, within_s=PATIENCE_S, what="it runs elsewhere")
        print(
            f"node lost to running elsewhere: {time.monotonic() - lost_at:.1f} s"
            f" (lease {LEASE_S} s, {psutil.getloadavg()[0]:.0f} load)"
        )
        assert most == 1
        wait_until(
            lambda: read()["phase"] == "running" and "n2" not in read()["place"],
            within_s=PATIENCE_S,
            what="the product says so",
        )
        assert spread.manage("ledger", "verify").returncode == 0
        client.delete(f"/workloads/{made['id']}").raise_for_status()
        wait_until(lambda: not trainings(mark), within_s=PATIENCE_S, what="nothing of it runs")
    ray_cluster.join("n2")
