"""Load by the API while faults come: submissions, stops, new starts, quotas, requests through the gateway.

Each call is made again until it is answered, as a careful client does: a submission with the same key.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from dashboard.launch.install import ROOT

WORK = ROOT / "dashboard" / "management" / "faults" / "work.py"
MODEL = "faults"
#: Between two acts of the one who submits; between two requests of the one who asks the service.
ACT_EVERY_S, ASK_EVERY_S = (0.4, 1.4), 0.25
AGAIN_S, PATIENCE_S, TIMEOUT_S = 0.5, 300.0, 15.0
#: The product is not there or not ready: the call is made again.
FOR_NOW = frozenset({429, 500, 502, 503, 504})
CREATED, GONE, UNMET = 201, 404, frozenset({409, 412})
PROJECTS = ("prod-training", "unit-a", "unit-b", "unit-c", "dev-chat")
SERVICE_PROJECT = "prod-inference"
QUOTAS_MGPU = (0, 500, 1000, 1600)
ACTS = ("train", "train", "train", "train", "train", "gang", "stop", "again", "quota")


class Unanswered(RuntimeError):
    """No answer within the patience; the product did not come back."""


@dataclass(slots=True, kw_only=True)
class Sent:
    """A workload as its owner knows it."""

    id: int
    name: str
    ranks: int
    steps: int
    stopped: bool = False


@dataclass(slots=True, kw_only=True)
class Told:
    """What the load has done and seen, for the summary and the checks."""

    sent: dict[str, Sent] = field(default_factory=dict)
    #: Names that were sent and whose answer did not come while the load had patience: there, or not.
    unanswered: set[str] = field(default_factory=set)
    services: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)


class Caller:
    """Calls of the API, each until it is answered."""

    def __init__(self, *, address: str, token: str, told: Told) -> None:
        self._told = told
        self._http = httpx.Client(
            base_url=f"{address}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
        )

    def call(
        self, method: str, path: str, *, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """Return status and content of the first answer that is one."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self._http.request(method, path, json=body, headers=named)
                if answer.status_code not in FOR_NOW:
                    return answer.status_code, answer.json() if answer.content else None
                self._told.errors[f"{answer.status_code} {method} {_shape(path)}"] += 1
                last = f"{answer.status_code} {answer.text[:200]}"
            except httpx.TransportError as error:
                self._told.errors[type(error).__name__] += 1
                last = str(error)
            if time.monotonic() > deadline:
                raise Unanswered(f"{method} {path}: {last}")
            time.sleep(AGAIN_S)

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return all of a list."""
        found: list[dict[str, Any]] = []
        more = ""
        while True:
            _, page = self.call("GET", f"{path}?limit=500{more}")
            found += page["items"]
            if page["next"] is None:
                return found
            more = f"&after={page['next']}"


def _shape(path: str) -> str:
    return "/".join("ID" if part.isdigit() else part for part in path.partition("?")[0].split("/"))


class Load:
    """One who submits and one who asks the service, each in a thread."""

    def __init__(self, *, caller: Caller, told: Told, notes: Path, address: str, seed: int) -> None:
        self._caller = caller
        self._told = told
        self._notes = notes
        self._address = address
        self._draw = Random(f"load {seed}")
        self._projects: dict[str, int] = {}
        self._key = ""
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.trouble: list[str] = []

    def prepare(self) -> None:
        """Take the demonstration's own work away and start a service with a key."""
        for row in self._caller.items("/workloads"):
            self._caller.call("DELETE", f"/workloads/{row['id']}")
        self._projects = {row["name"]: row["id"] for row in self._caller.items("/projects")}
        self._submit(MODEL, SERVICE_PROJECT, self._service())
        terms = {"name": "faults", "project_id": self._projects[SERVICE_PROJECT]}
        _, made = self._caller.call("POST", "/gateway-keys", body=terms)
        self._key = made["secret"]

    def move_to(self, nodes: Collection[str]) -> None:
        """Wait until these nodes are ready, and take nothing new to any other one.

        Raises:
            Unanswered: they do not come.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            rows = self._caller.items("/nodes")
            ready = {row["name"] for row in rows if not row["lost"]}
            if ready >= set(nodes):
                break
            if time.monotonic() > deadline:
                raise Unanswered(f"nodes are missing: {sorted(set(nodes) - ready)}")
            time.sleep(AGAIN_S)
        for row in rows:
            if row["name"] not in nodes:
                self._caller.call("POST", f"/nodes/{row['id']}/cordon")

    def begin(self) -> None:
        for act in (self._act_on, self._ask_on):
            thread = threading.Thread(target=self._watched, args=(act,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        """Stop both and wait until their last call is answered."""
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S + TIMEOUT_S)
            if thread.is_alive():
                self.trouble.append("a call of the load never came to an end")

    def _watched(self, act: Any) -> None:
        try:
            act()
        except (Unanswered, KeyError, TypeError) as error:
            self.trouble.append(f"the load ended early: {type(error).__name__}: {error}")

    # --- The one who submits ------------------------------------------------------------------

    def _act_on(self) -> None:
        while not self._over.wait(self._draw.uniform(*ACT_EVERY_S)):
            act = self._draw.choice(ACTS)
            self._told.counts[act] += 1
            match act:
                case "stop" | "again":
                    self._stop_or_start_again(act)
                case "quota":
                    self._change_a_quota()
                case _:
                    self._send_work(act)

    def _send_work(self, act: str) -> None:
        name = f"w{self._told.counts['train'] + self._told.counts['gang']}"
        ranks = 2 if act == "gang" else 1
        steps = self._draw.randint(4, 40)
        work: dict[str, Any] = {
            "kind": "distributed" if ranks > 1 else "training",
            "command": self._command("train", name, "--steps", str(steps)),
            "request_mgpu": self._draw.choice((100, 250, 500, 1000)),
            "min_replicas": ranks,
            "max_replicas": ranks,
            "priority": self._draw.choice((25, 40, 65)),
            "grace_s": self._draw.randint(1, 5),
            "max_attempts": 50,
        }
        project = self._draw.choice(PROJECTS)
        made = self._submit(name, project, work)
        if made:
            self._told.sent[name] = Sent(id=made, name=name, ranks=ranks, steps=steps)

    def _submit(self, name: str, project: str, work: Mapping[str, Any]) -> int:
        self._told.unanswered.add(name)
        body = {**work, "name": name, "project_id": self._projects[project]}
        status, answer = self._caller.call(
            "POST", "/workloads", body=body, Idempotency_Key=f"faults-{name}"
        )
        self._told.unanswered.discard(name)
        if status != CREATED:
            self.trouble.append(f"the submission of {name} was refused: {status} {answer}")
            return 0
        if work["kind"] == "inference":
            self._told.services[name] = answer["id"]
        return int(answer["id"])

    def _service(self) -> dict[str, Any]:
        scaling = {
            "model_names": [MODEL],
            "metric": "concurrency",
            "threshold": 1,
            "stable_window_s": 10,
            "request_timeout_s": 60,
        }
        return {
            "kind": "inference",
            "command": self._command("serve", MODEL),
            "request_mgpu": 250,
            "min_replicas": 1,
            "max_replicas": 3,
            "readiness_path": "/health",
            "grace_s": 5,
            "scaling": scaling,
        }

    def _command(self, what: str, name: str, *more: str) -> list[str]:
        own = ["--notes", str(self._notes), "--name", name]
        return [sys.executable, "-S", str(WORK), what, *own, *more]

    def _stop_or_start_again(self, act: str) -> None:
        wanted = [one for one in self._told.sent.values() if one.stopped == (act == "again")]
        if not wanted:
            return
        one = self._draw.choice(wanted)
        path = f"/workloads/{one.id}/{'start' if act == 'again' else 'stop'}"
        status, _ = self._caller.call("POST", path)
        if status < 300:
            one.stopped = act == "stop"

    def _change_a_quota(self) -> None:
        project, mgpu = self._draw.choice(PROJECTS), self._draw.choice(QUOTAS_MGPU)
        _, tree = self._caller.call("GET", "/quotas")
        row = {"level": "project", "id": self._projects[project], "quota_mgpu": mgpu}
        status, _ = self._caller.call(
            "PUT", "/quotas", body={"rows": [row]}, If_Match=f"{tree['etag']}"
        )
        self._told.counts["quota refused" if status >= 400 else "quota saved"] += 1

    # --- The one who asks ---------------------------------------------------------------------

    def _ask_on(self) -> None:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "?"}]}
        headers = {"Authorization": f"Bearer {self._key}"}
        with httpx.Client(base_url=self._address, timeout=TIMEOUT_S, headers=headers) as client:
            while not self._over.wait(ASK_EVERY_S):
                try:
                    status = client.post("/v1/chat/completions", json=body).status_code
                    self._told.counts[f"request answered {status}"] += 1
                except httpx.TransportError as error:
                    self._told.counts[f"request broken: {type(error).__name__}"] += 1
