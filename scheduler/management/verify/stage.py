"""What a verification works with: the running product, a scene on it, a signed-in reader, a sheet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from django.conf import settings

from scheduler.core.vocabulary import Kind
from scheduler.management.verify import pages, readers
from scheduler.management.verify.checks import Sheet
from scheduler.management.verify.layout import Layout
from scheduler.management.verify.pages import Browser, OverviewPage
from scheduler.management.verify.readers import (
    Processes,
    TrainingLog,
    read_training,
    settle,
)
from scheduler.management.verify.said import say
from scheduler.management.verify.scene import Edit, Scene, Watcher, open_scene, unchanged
from scheduler.operations.demonstration_data import Unit, service, training

#: Seconds within which work that may start is up on a busy laptop.
START_S = 40.0
#: Seconds for which what must not happen is given the chance to.
DWELL_S = 3.0
PROCESS_TABLE = "process table"


class NotRunning(Exception):
    """The product does not run with this data folder."""


def find_address() -> str:
    """Return the address of the product that runs with this data folder.

    Raises:
        NotRunning: none answers.
    """
    file = Path(settings.DATA_DIR) / "run" / "up.json"
    url = str(json.loads(file.read_text(encoding="utf-8")).get("url", "")) if file.exists() else ""
    if not url or not answers(url):
        raise NotRunning(
            f"Tidegate does not run with the data folder {settings.DATA_DIR}. Start it in another "
            "terminal with: python3 manage.py up (another data folder: set TIDEGATE_DATA for both)."
        )
    return url


def answers(url: str) -> bool:
    """Test whether the product answers there."""
    try:
        return httpx.get(f"{url.rstrip('/')}/healthz", timeout=30).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One verification at work."""

    url: str
    layout: Layout
    scene: Scene
    browser: Browser
    sheet: Sheet
    patience_s: float = START_S

    # -- reading -----------------------------------------------------------------------------------

    def page(self) -> OverviewPage:
        """Return the scratch pool's Overview."""
        return self.browser.overview(self.scene.pool_name)

    @property
    def page_name(self) -> str:
        """Say which page ``page`` reads."""
        return say("page /?pool={pool}", pool=self.scene.pool_name)

    def workload_page(self, name: str) -> str:
        """Return the words of a workload's page."""
        return self.browser.workload(self.scene.workloads[name])

    def wait_for_page(self, until: Callable[[OverviewPage], bool]) -> OverviewPage:
        """Return the Overview once it is so, or as it was last."""
        return settle(self.page, until=until, within_s=self.patience_s)

    def wait_for_processes(self, until: Callable[[Processes], bool]) -> Processes:
        """Return the process table once it is so, or as it was last."""
        return settle(self.scene.processes, until=until, within_s=self.patience_s)

    def wait_for_services(self, names: Sequence[str]) -> Processes:
        """Return the process table once all these services answer, or as it was last."""
        return self.wait_for_processes(
            lambda found: all(readers.answers(found.of(name)) for name in names)
        )

    def training_logs(self, processes: Processes, prefix: str) -> dict[str, TrainingLog]:
        """Return what trainings have printed, by name."""
        chosen = processes.starting_with(prefix)
        return {process.name: read_training(process.key) for process in chosen}

    def wait_for_epochs(
        self, processes: Processes, prefix: str, *, more: int
    ) -> dict[str, TrainingLog]:
        """Return the logs once each training has finished so many more epochs, or as they are."""
        goals = {
            name: len(found.epochs) + more
            for name, found in self.training_logs(processes, prefix).items()
        }
        return settle(
            lambda: self.training_logs(processes, prefix),
            until=lambda logs: all(len(logs[n].epochs) >= goal for n, goal in goals.items()),
            within_s=self.patience_s,
        )

    # -- work --------------------------------------------------------------------------------------

    def submit_training(
        self, name: str, *, project: str, mgpu: int, more: Sequence[str] = ()
    ) -> int:
        """Hand in the example training at a pace of two epochs a second, learning fast."""
        seed = sum(map(ord, name))
        return self.scene.submit(
            name,
            project=project,
            kind=Kind.TRAINING,
            mgpu=mgpu,
            command=(*training(epoch_s="0.5", seed=seed), "--rate", "0.002", *more),
            max_attempts=1,
        )

    def submit_service(self, name: str, *, project: str, mgpu: int) -> int:
        """Hand in the example inference server."""
        return self.scene.submit(
            name,
            project=project,
            kind=Kind.INFERENCE,
            mgpu=mgpu,
            command=service(model=name),
        )


@contextmanager
def open_stage(
    *,
    url: str,
    layout: Layout,
    units: Sequence[Unit],
    sheet: Sheet,
    watcher: Watcher,
    edit: Edit = unchanged,
    patience_s: float = START_S,
) -> Iterator[Stage]:
    """Make a scene on the product at ``url`` and a reader of its pages; remove both afterwards."""
    with (
        open_scene(layout=layout, units=units, watcher=watcher, edit=edit) as scene,
        pages.signed_in(
            url=url, run=scene.run, department_ids=tuple(scene.departments.values())
        ) as browser,
    ):
        yield Stage(
            url=url,
            layout=layout,
            scene=scene,
            browser=browser,
            sheet=sheet,
            patience_s=patience_s,
        )
