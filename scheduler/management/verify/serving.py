"""What verifications of serving work with: services that scale, keys, callers, recorded series."""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx

from scheduler import models
from scheduler.core.autoscale import Metric
from scheduler.core.vocabulary import Kind
from scheduler.management.verify.layout import gpus
from scheduler.management.verify.readers import MARKER
from scheduler.management.verify.said import say
from scheduler.management.verify.scene import GRACE_S, Scene
from scheduler.management.verify.stage import Stage
from scheduler.operations import gateway_keys, services, submissions
from scheduler.operations.authority import SYSTEM
from scheduler.operations.demonstration_data import service
from scheduler.queries import gateway_keys as key_queries
from scheduler.queries import services as queries
from scheduler.queries.visibility import SYSTEM as EVERYTHING

CALL_TIMEOUT_S = 120
POST_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of one request."""

    status: int
    took_s: float
    replica: str = ""
    queued_ms: int = 0


@dataclass(slots=True)
class Callers:
    """Callers that ask one after the other without a pause, until they are told to stop."""

    answers: list[Answer] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def statuses(self) -> str:
        """Say how many got which status."""
        return in_words(self.answers)


def submit(
    scene: Scene,
    name: str,
    *,
    project: str,
    mgpu: int,
    replicas: tuple[int, int],
    scaling: services.Scaling,
    more: Sequence[str] = (),
    source_ids: Sequence[int] = (),
) -> int:
    """Hand in the example inference server as a service that scales; return the workload's id."""
    workload = services.submit_service(
        project_id=scene.projects[project],
        pool_id=scene.pool_id,
        submission=submissions.Submission(
            name=name,
            kind=Kind.INFERENCE,
            command=[*service(model=name), *more],
            request_mgpu=mgpu,
            min_replicas=replicas[0],
            max_replicas=replicas[1],
            env={MARKER: f"{scene.run}/{name}"},
            source_ids=source_ids,
            readiness_path="/health",
            grace_s=GRACE_S,
        ),
        scaling=scaling,
        authority=SYSTEM,
        now=datetime.now(tz=UTC),
    )
    scene.workloads[name] = workload.pk
    scene.on_step(say("{name} of {gpu} GPU is handed in", name=name, gpu=gpus(mgpu)))
    return workload.pk


def make_key(scene: Scene, *, project: str = "", department: str = "") -> str:
    """Make a gateway key; return its secret. It goes with the scratch pool."""
    made = gateway_keys.create_key(
        project_id=scene.projects[project] if project else None,
        department_id=scene.departments[department] if department else None,
        terms=gateway_keys.KeyTerms(name=project or department),
        authority=SYSTEM,
        now=datetime.now(tz=UTC),
    )
    return made.secret


def ask(stage: Stage, *, key: str, model: str, tokens: int = 8) -> Answer:
    """Send one chat through the one address and read its answer to the end."""
    began = time.monotonic()
    body = {
        "model": model,
        "max_tokens": tokens,
        "messages": [{"role": "user", "content": "Tell me about the tide."}],
    }
    answer = httpx.post(
        f"{stage.url.rstrip('/')}/v1/chat/completions",
        json=body,
        headers={"Authorization": f"Bearer {key}"},
        timeout=CALL_TIMEOUT_S,
    )
    return Answer(
        status=answer.status_code,
        took_s=time.monotonic() - began,
        replica=answer.headers.get("x-tidegate-replica", ""),
        queued_ms=int(answer.headers.get("x-tidegate-queued-ms", 0)),
    )


@contextmanager
def calling(stage: Stage, *, key: str, model: str, callers: int, tokens: int) -> Iterator[Callers]:
    """Keep so many requests in flight for as long as the block lasts."""
    found = Callers()

    def call() -> None:
        while not found._stop.is_set():
            found.answers.append(ask(stage, key=key, model=model, tokens=tokens))

    with ThreadPoolExecutor(callers) as pool:
        calls = [pool.submit(call) for _ in range(callers)]
        try:
            yield found
        finally:
            found._stop.set()
        for each in calls:
            each.result()


@contextmanager
def posting(
    stage: Stage, *, key: str, project: str, name: str, metric: str, value: int
) -> Iterator[Callers]:
    """Post a service's own number twice a second for as long as the block lasts, as a watcher would."""
    found = Callers()
    at = models.Project.objects.get(pk=stage.scene.projects[project]).name
    address = f"{stage.url.rstrip('/')}/v1/services/{at}/{name}/metric"

    def post() -> None:
        while not found._stop.wait(POST_EVERY_S):
            began = time.monotonic()
            answer = httpx.post(
                address,
                json={"name": metric, "value": value},
                headers={"Authorization": f"Bearer {key}"},
                timeout=CALL_TIMEOUT_S,
            )
            took_s = time.monotonic() - began
            found.answers.append(Answer(status=answer.status_code, took_s=took_s))

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(post)
        try:
            yield found
        finally:
            found._stop.set()
        watcher.result()


def ask_at_once(stage: Stage, *, key: str, model: str, count: int) -> list[Answer]:
    """Send so many requests at the same moment and return all answers."""
    with ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(ask, stage, key=key, model=model) for _ in range(count)]
        return [each.result() for each in asked]


def list_models(stage: Stage, *, key: str) -> str:
    """Return the names of the models that a key may use, as the gateway lists them."""
    answer = httpx.get(
        f"{stage.url.rstrip('/')}/v1/models",
        headers={"Authorization": f"Bearer {key}"},
        timeout=CALL_TIMEOUT_S,
    )
    return ", ".join(model["id"] for model in answer.json()["data"])


def read_replicas(stage: Stage, name: str) -> str:
    """Return what the Inference page says of a service's replicas, such as "0/0-3"."""
    page = stage.browser.read("inference").text
    found = re.search(rf'data-replicas="{stage.scene.workloads[name]}">([^<]*)<', page)
    return found[1] if found else "not shown"


def read_detail(stage: Stage, name: str) -> queries.ServiceDetail:
    """Return a service with its recorded series."""
    found = queries.read_service(
        visible=EVERYTHING,
        workload_id=stage.scene.workloads[name],
        now=datetime.now(tz=UTC),
    )
    assert found is not None
    return found


def list_usage() -> tuple[key_queries.UsageRow, ...]:
    """Return what was used through the gateway, by key, project and model."""
    return key_queries.list_usage(visible=EVERYTHING, now=datetime.now(tz=UTC))


def has_price() -> bool:
    """Test whether an hour of the scratch pool's GPUs has a price now."""
    return any(not row.gpu_model for row in models.GpuPrice.objects.all())


def changes(detail: queries.ServiceDetail, *, since: datetime) -> str:
    """Return the wanted numbers as they followed each other in the recorded series."""
    numbers = [point.desired for point in detail.points if point.at >= since]
    kept = [n for i, n in enumerate(numbers) if i == 0 or n != numbers[i - 1]]
    return ", ".join(str(n) for n in kept)


def in_words(answers: Sequence[Answer]) -> str:
    """Say how many got which status."""
    statuses = sorted({answer.status for answer in answers})
    counts = [f"{sum(a.status == s for a in answers)} x {s}" for s in statuses]
    return ", ".join(counts) or "none"


def median_s(answers: Sequence[Answer]) -> float:
    """Return the middle of the times that answers took."""
    return statistics.median(answer.took_s for answer in answers)


def scaling_by(metric: Metric, threshold: int, **more: int | str) -> services.Scaling:
    """Return a scaling with windows shortened for a run: 12 s, and a grace of 4 s at zero."""
    return services.Scaling(
        metric=metric,
        threshold=threshold,
        stable_window_s=WINDOW_S,
        zero_grace_s=ZERO_GRACE_S,
        **more,  # type: ignore[arg-type]
    )


WINDOW_S = 12
ZERO_GRACE_S = 4
