"""What is going on in the pictures: borrowed work fills the pool, someone asks for a guarantee.

All of it is asked for over the API, as anyone could; nothing is written into tables.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from playwright.sync_api import APIRequestContext, APIResponse

#: How long the victim takes to save, so that the reclaim can be photographed.
SAVING_S = 150
SETTLE_S = 150.0
EXAMPLE = "{examples}/training/train_digits.py"
TRAINING = ["python", EXAMPLE, "--epochs", "3000", "--epoch-seconds", "20", "--passes", "6"]
SLOW = [*TRAINING, "--checkpoint-every", "1000", "--save-seconds", str(SAVING_S)]


class NoStory(RuntimeError):
    """What was asked for over the API was refused, or did not come about."""


class Story:
    """The demonstration *racks*, and what happens on it."""

    def __init__(self, request: APIRequestContext, *, address: str, csrf: str) -> None:
        self._request = request
        self._address = address
        self._headers = {"X-CSRFToken": csrf, "Referer": f"{address}/"}
        self._projects = {row["name"]: row["id"] for row in self._get("projects?limit=100")}

    def prepare(self) -> None:
        """Let the demonstration run, then fill the pool with borrowed work, and make some rows."""
        self._wait_until_running(least=50)
        for number in range(6, 10):
            self._submit(f"distill-{number}", "prod-training", command=SLOW, grace_s=300)
        for number in range(1, 4):
            self._submit(f"aug-2{number}", "vision-lab", command=SLOW, grace_s=300)
        self._submit("dock-79", "bio-fold", command=TRAINING)
        self._submit("tokens", "nlp-lab", share=250, command=TRAINING)
        self._submit(
            "broken-import", "nlp-lab", share=100, command=["python", "-c", "import nothing"]
        )
        self._submit(
            "count-rows", "bio-fold", share=100, command=["python", "-c", "print('rows 18400')"]
        )
        self._people()
        self._assets()
        self._reports()
        self._pause_until_quiet()

    def reclaim(self) -> None:
        """Let nlp-lab ask for its guarantee; the borrower that goes takes its time to save."""
        self._submit("sweep-9", "dev-train", command=TRAINING)
        self._submit("probe-7b", "nlp-lab", command=TRAINING)
        self._wait_for(lambda row: row["phase"] == "stopping", "a victim on its way out")

    # --- The API ---------------------------------------------------------------------------------

    def _submit(
        self,
        name: str,
        project: str,
        *,
        command: list[str],
        share: int = 1000,
        devices: int = 1,
        grace_s: int = 30,
    ) -> None:
        self._post(
            "workloads",
            {
                "name": name,
                "project_id": self._projects[project],
                "command": command,
                "request_mgpu": share,
                "devices": devices,
                "grace_s": grace_s,
            },
        )

    def _people(self) -> None:
        for name, role, project in (
            ("lin", "researcher", "nlp-lab"),
            ("chen", "project_admin", "bio-fold"),
            ("huang", "viewer", "vision-lab"),
        ):
            self._post("people", {"username": name, "password": f"tide-{name}-gate-7"})
            rule = {"username": name, "role": role, "project_id": self._projects[project]}
            self._post("access-rules", rule)

    def _assets(self) -> None:
        project = self._projects["nlp-lab"]
        environment = {"command": TRAINING, "env": {"OMP_NUM_THREADS": "1"}}
        self._post(
            "assets",
            {
                "kind": "environment",
                "name": "digits",
                "description": "The example training, one thread",
                "project_id": project,
                "environment": environment,
            },
        )

    def _reports(self) -> None:
        about = "period=today&by=project&zone=Asia/Taipei"
        self._post(f"reports/saved?{about}", {"name": "Today by project"})
        self._post(f"reports/schedules?{about}", {"name": "Weekly", "every": "week"})

    def _pause_until_quiet(self) -> None:
        """Wait until nothing is starting."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            if not any(row["phase"] == "starting" for row in self._workloads()):
                return
            time.sleep(1)

    def _wait_until_running(self, *, least: int) -> None:
        deadline = time.monotonic() + SETTLE_S
        while sum(row["phase"] == "running" for row in self._workloads()) < least:
            if time.monotonic() > deadline:
                raise NoStory(f"not {least} workloads running within {SETTLE_S:.0f} s")
            time.sleep(1)

    def _wait_for(self, is_so: Any, what: str) -> None:
        deadline = time.monotonic() + SETTLE_S
        while not any(is_so(row) for row in self._workloads()):
            if time.monotonic() > deadline:
                raise NoStory(f"not within {SETTLE_S:.0f} s: {what}")
            time.sleep(0.3)

    def _workloads(self) -> list[dict[str, Any]]:
        return self._get("workloads?limit=100")

    def _get(self, path: str) -> list[dict[str, Any]]:
        answer = self._request.get(f"{self._address}/api/v1/{path}")
        return cast("list[dict[str, Any]]", _told(answer)["items"])

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._request.post(
            f"{self._address}/api/v1/{path}", data=dict(body), headers=self._headers
        )
        return _told(answer)


def _told(answer: APIResponse) -> dict[str, Any]:
    if not answer.ok:
        raise NoStory(f"{answer.status} {answer.url}: {answer.text()[:300]}")
    return cast("dict[str, Any]", answer.json())
