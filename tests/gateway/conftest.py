"""Gateways and replicas for tests: real processes and sockets, services as rows."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import uvicorn

from scheduler import events, models
from scheduler.core.autoscale import Metric
from scheduler.core.vocabulary import Kind, Phase, ReplicaPhase
from scheduler.operations import gateway_keys, services, submissions
from scheduler.operations.authority import SYSTEM
from tests.product import wait_until
from tests.scheduler.conftest import ticker  # noqa: F401 - a fixture of the tests here
from tests.scheduler.places import article


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def now():
    return datetime.now(tz=UTC)


@dataclass(slots=True)
class ReplicaProcess:
    """One process of tests/gateway/replica.py."""

    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self):
        command = [sys.executable, "-m", "tests.gateway.replica", str(self.port)]
        self.process = subprocess.Popen(command)
        wait_until(self.answers, within_s=20, what="the replica answers")
        return self

    def answers(self):
        try:
            return fetch(f"http://127.0.0.1:{self.port}/health")[0] == 200
        except OSError:
            return False

    def seen(self):
        return json.loads(fetch(f"http://127.0.0.1:{self.port}/seen")[1])

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=10)


def fetch(url, *, key="", body=None, method=None, headers=None):
    """Return (status, body, headers) of a request."""
    sent = {"Content-Type": "application/json", **(headers or {})}
    if key:
        sent["Authorization"] = f"Bearer {key}"
    data = json.dumps(body).encode() if isinstance(body, dict | list) else body
    request = urllib.request.Request(url, data=data, headers=sent, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read(), dict(error.headers)


@dataclass(slots=True)
class Town:
    """The article's card with services on it, each with replicas that are processes of the test."""

    place: Any
    replicas: list[ReplicaProcess] = field(default_factory=list)

    def service(self, name, *, of="prod-inference", gpu="0.01", low=1, high=3, **scaling):
        submission = submissions.Submission(
            name=name,
            kind=Kind.INFERENCE,
            command=["serve"],
            request_mgpu=int(float(gpu) * 1000),
            min_replicas=low,
            max_replicas=high,
        )
        scaling.setdefault("metric", Metric.CONCURRENCY)
        return services.submit_service(
            project_id=self.place.projects[of].pk,
            pool_id=self.place.pool.pk,
            submission=submission,
            scaling=services.Scaling(**scaling),
            authority=SYSTEM,
            now=now(),
        )

    def key(self, *, of="prod-inference", department="", **terms):
        project = self.place.projects[of].pk if not department else None
        made = gateway_keys.create_key(
            project_id=project,
            department_id=self.place.departments[department].pk if department else None,
            terms=gateway_keys.KeyTerms(name=terms.pop("name", "test"), **terms),
            authority=SYSTEM,
            now=now(),
        )
        return made.secret

    def start_process(self, port=None):
        replica = ReplicaProcess(port or free_port()).start()
        self.replicas.append(replica)
        return replica

    def ready(self, workload, replica):
        """Write what the tick writes when a replica answers."""
        node = models.Node.objects.get(name="card-01")
        ordinal = workload.replicas.count()
        row = models.Replica.objects.create(
            workload=workload,
            ordinal=ordinal,
            attempt=ordinal + 1,
            node=node,
            phase=ReplicaPhase.RUNNING,
            mgpu=250,
            booked_at=now(),
            running_at=now(),
            host="127.0.0.1",
            port=replica.port,
        )
        models.Workload.objects.filter(pk=workload.pk).update(phase=Phase.RUNNING)
        say_changed()
        return row

    def leave(self, row):
        """Write what the tick writes when a replica is gone."""
        models.Replica.objects.filter(pk=row.pk).update(phase=ReplicaPhase.ENDED, ended_at=now())
        say_changed()


def say_changed():
    events.publish_changed(cycle=1, at_us=0, generation=1)


@pytest.fixture
def town(transactional_db):
    events.client().flushdb()
    made = Town(place=article())
    yield made
    for replica in made.replicas:
        replica.end()


@dataclass(slots=True)
class GatewayThread:
    """A gateway in this process, with a loop of its own."""

    gateway: Any
    port: int
    server: uvicorn.Server
    thread: threading.Thread

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def waits_for(self, workload):
        desk = self.gateway.runtime.desks.get(workload.pk)
        return desk.waiting if desk else 0

    def has(self, workload):
        desk = self.gateway.runtime.desks.get(workload.pk)
        return sum(desk.in_flight.values()) if desk else 0

    def knows(self, workload, replicas):
        desk = self.gateway.runtime.desks.get(workload.pk)
        return desk is not None and len(desk.route.endpoints) == replicas

    def sees(self, workload, *, replicas):
        wait_until(
            lambda: self.knows(workload, replicas), within_s=10, what="the gateway sees replicas"
        )


@pytest.fixture
def gateway(town):
    from gateway.app import Gateway
    from gateway.corked import CorkedProtocol

    port = free_port()
    made = Gateway()
    config = uvicorn.Config(
        made,
        host="127.0.0.1",
        port=port,
        lifespan="on",
        log_level="error",
        http=CorkedProtocol,
        backlog=2048,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, within_s=20, what="the gateway serves")
    yield GatewayThread(made, port, server, thread)
    server.should_exit = True
    thread.join(timeout=30)
    assert not thread.is_alive()


#: A gateway that a busy machine can't make lose a lease or its patience with Redis.
PATIENT_GATEWAY = """
import uvicorn
from gateway import app, runtime
from scheduler.telemetry import demand
demand.LEASE_MS = 600_000
runtime.REDIS_TIMEOUT_S = 60.0
uvicorn.main()
"""


def gateway_environment():
    """Return the environment in which a gateway process finds the test's database and Redis."""
    from django.conf import settings
    from django.db import connection

    name = connection.settings_dict["NAME"]
    url = f"sqlite:///{name}"
    if connection.vendor == "postgresql":
        told = connection.settings_dict
        user = f"{told['USER']}:{told['PASSWORD']}"
        url = f"postgresql://{user}@/{name}?host={told['HOST']}&port={told['PORT']}"
    return {
        **os.environ,
        "DATABASE_URL": url,
        "REDIS_URL": settings.REDIS_URL,
        "TIDEGATE_DATA": str(settings.DATA_DIR),
    }


@pytest.fixture
def start_gateway(town):
    """Start gateways as processes of their own, as they run in production."""
    started = []

    def start(*, patient=False):
        port = free_port()
        command = ["-c", PATIENT_GATEWAY] if patient else ["-m", "uvicorn"]
        options = ["--http", "gateway.corked:CorkedProtocol", "--log-level", "warning"]
        process = subprocess.Popen(
            [sys.executable, *command, "gateway.app:app", "--port", str(port), *options],
            env=gateway_environment(),
        )
        started.append(process)
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: _is_up(address), within_s=120, what="the gateway process answers")
        return address, process

    yield start
    for process in started:
        process.kill()
        process.wait(timeout=10)


def _is_up(address):
    try:
        return fetch(f"{address}/healthz")[0] == 200
    except OSError:
        time.sleep(0.05)
        return False
