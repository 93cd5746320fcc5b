"""The scratch pool of one verification and what is in it: made, used, and removed whatever happens."""

from __future__ import annotations

import logging
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import FrameType

from django.db import transaction

from scheduler import models
from scheduler.core.snapshot import QueueQuota
from scheduler.core.vocabulary import Kind
from scheduler.engines.base import ReplicaKey
from scheduler.management.verify import engines
from scheduler.management.verify.layout import Layout, gpus
from scheduler.management.verify.readers import MARKER, Processes, read_processes, settle
from scheduler.management.verify.said import say
from scheduler.operations import asset_files, nodes, quotas, submissions, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.operations.demonstration_data import Unit
from scheduler.operations.refused import NodeRefused, NotFound
from scheduler.operations.units import create_department, create_project
from scheduler.queries import pool_state
from scheduler.queries import workloads as workload_queries
from scheduler.queries.visibility import SYSTEM as EVERYTHING
from scheduler.tick import run
from scheduler.tick.verifications import SCRATCH_PREFIX as POOL_PREFIX

log = logging.getLogger(__name__)

GRACE_S = 5
#: How long the product's own tick is waited for before this process ticks itself.
OWN_TICK_AFTER_S = 20.0
REMOVE_WITHIN_S = 90.0
FORGOTTEN_WITHIN_S = 15.0
#: How long the name of deleted work is waited for.
LEAVING_S = 60.0

#: Changes a queue before it is made. Tests switch rules off with it.
Edit = Callable[[Unit], Unit]


def unchanged(unit: Unit) -> Unit:
    """Return the queue as the article has it."""
    return unit


class Watcher:
    """Hears what happens to a scratch pool. This one keeps nothing."""

    def opened(self, pool_name: str) -> None:
        """Hear that the pool is there."""

    def closed(self) -> None:
        """Hear that it is gone."""

    def step(self, text: str) -> None:
        """Hear of one thing that was done."""

    def given(self, text: str) -> None:
        """Hear what is so before."""

    def when(self, text: str) -> None:
        """Hear what is done now."""


NOBODY = Watcher()


class SceneNotRemoved(Exception):
    """Something of the scratch pool is still there. The next run clears it."""


@dataclass(slots=True, kw_only=True)
class Scene:
    """One scratch pool with its departments, projects and work."""

    run: str
    layout: Layout
    edit: Edit
    pool_name: str
    pool_id: int = 0
    node_name: str = ""
    departments: dict[str, int] = field(default_factory=dict)
    projects: dict[str, int] = field(default_factory=dict)
    workloads: dict[str, int] = field(default_factory=dict)
    _units: dict[str, Unit] = field(default_factory=dict)
    _leaving: dict[str, int] = field(default_factory=dict)
    #: Hears of each step, such as work that is handed in.
    on_step: Callable[[str], None] = lambda text: None

    def called(self, unit_name: str) -> str:
        """Return the name of a queue in this run: names are unique in a cluster."""
        return f"{unit_name}-{self.run}"

    def now(self) -> datetime:
        """Return the time at which something is asked for."""
        return _now()

    def processes(self) -> Processes:
        """Return what of this run lives on the machine."""
        return read_processes(self.run)

    def submit(
        self,
        name: str,
        *,
        project: str,
        kind: Kind,
        mgpu: int,
        command: Sequence[str],
        max_attempts: int | None = None,
        preemptible: bool | None = None,
        priority: int | None = None,
    ) -> int:
        """Hand in work for one device or a share of one; return the workload's id."""
        self._wait_until_gone(name)
        workload = workloads.submit_workload(
            project_id=self.projects[project],
            pool_id=self.pool_id,
            submission=submissions.Submission(
                name=name,
                kind=kind,
                command=list(command),
                request_mgpu=mgpu,
                env={MARKER: f"{self.run}/{name}"},
                readiness_path="/health" if kind is Kind.INFERENCE else "",
                grace_s=GRACE_S,
                max_attempts=max_attempts,
                preemptible=preemptible,
                priority=priority,
            ),
            authority=SYSTEM,
            now=_now(),
        )
        self.workloads[name] = workload.pk
        self.on_step(say("{name} of {gpu} GPU is handed in", name=name, gpu=gpus(mgpu)))
        return workload.pk

    def delete(self, name: str) -> None:
        """Delete work; what runs of it is ended first, and its name stays taken until then."""
        self._leaving[name] = self.workloads.pop(name)
        workloads.delete_workload(workload_id=self._leaving[name], authority=SYSTEM, now=_now())
        self.on_step(say("{name} is deleted", name=name))

    def _wait_until_gone(self, name: str) -> None:
        """Wait until what was deleted under this name is no more; then the name is free."""
        left = models.Workload.objects.filter(pk=self._leaving.pop(name, 0), deleted_at=None)
        settle(left.exists, until=lambda is_there: not is_there, within_s=LEAVING_S)

    def set_department(self, name: str, *, limit_mgpu: int) -> None:
        """Change a department's limit."""
        self._units[name] = replace(self._units[name], limit_mgpu=limit_mgpu)
        self._set_quota(self._units[name])

    def set_guarantee(self, name: str, *, quota_mgpu: int) -> datetime:
        """Change what a department or a project is guaranteed; return from when on."""
        self._units[name] = replace(self._units[name], quota_mgpu=quota_mgpu)
        return self._set_quota(self._units[name])

    def make(self, units: Sequence[Unit]) -> None:
        """Make pool, node, departments and projects, all or nothing."""
        with transaction.atomic():
            pool = nodes.create_pool(
                name=self.pool_name, authority=SYSTEM, now=_now(), scratch=True
            )
            self.pool_id = pool.pk
            device = nodes.DeviceFacts(
                model="L40S 48 GB", memory_mib=self.layout.memory_mib, virtual=True
            )
            facts = nodes.NodeFacts(
                name=self.called(self.layout.name), devices=[device] * self.layout.devices
            )
            facts = engines.place(facts)
            nodes.register_node(pool_id=pool.pk, facts=facts, authority=SYSTEM, now=_now())
            self.node_name = facts.name
            for unit in units:
                self._make_unit(unit)

    def _make_unit(self, unit: Unit) -> None:
        self._units[unit.name] = unit
        if unit.department:
            project = create_project(
                department_id=self.departments[unit.department],
                name=self.called(unit.name),
                authority=SYSTEM,
                now=_now(),
            )
            self.projects[unit.name] = project.pk
        else:
            department = create_department(
                name=self.called(unit.name), authority=SYSTEM, now=_now(), scratch=True
            )
            self.departments[unit.name] = department.pk
        self._set_quota(unit)

    def _set_quota(self, unit: Unit) -> datetime:
        edited, now = self.edit(unit), _now()
        values = QueueQuota(
            quota_mgpu=edited.quota_mgpu,
            limit_mgpu=edited.limit_mgpu,
            over_quota=edited.over_quota,
        )
        if unit.department:
            quotas.set_project_quota(
                project_id=self.projects[unit.name],
                pool_id=self.pool_id,
                values=values,
                authority=SYSTEM,
                now=now,
            )
        else:
            quotas.set_department_quota(
                department_id=self.departments[unit.name],
                pool_id=self.pool_id,
                values=values,
                authority=SYSTEM,
                now=now,
            )
        return now


@contextmanager
def open_scene(
    *,
    layout: Layout,
    units: Sequence[Unit],
    watcher: Watcher = NOBODY,
    edit: Edit = unchanged,
) -> Iterator[Scene]:
    """Make a scratch pool; remove it with all that is in it, also on a failure or Ctrl-C."""
    run_name = secrets.token_hex(2)
    scene = Scene(
        run=run_name,
        layout=layout,
        edit=edit,
        pool_name=f"{POOL_PREFIX}{run_name}",
        on_step=watcher.step,
    )
    try:
        scene.make(units)
        watcher.step(say("the scratch pool {pool} is made", pool=scene.pool_name))
        watcher.opened(scene.pool_name)
        yield scene
    finally:
        with _not_interrupted():
            watcher.step(say("the scratch pool is removed"))
            remove_pool(scene.pool_name)
            watcher.closed()


def list_leftovers() -> tuple[str, ...]:
    """Return the scratch pools that a run which was killed has left."""
    found = (pool.name for pool in pool_state.list_pools(visible=EVERYTHING))
    return tuple(name for name in found if re.fullmatch(POOL_PREFIX + r"[0-9a-f]{4}", name))


def remove_pool(name: str) -> None:
    """End all work of a scratch pool, then remove it with its tree and its files.

    Raises:
        SceneNotRemoved: something did not end in time.
    """
    pools = {pool.name: pool.id for pool in pool_state.list_pools(visible=EVERYTHING)}
    if name not in pools:
        return
    asked: set[int] = set()
    began = time.monotonic()
    while (removed := _try_remove(name, pools[name], asked)) is None:
        waited_s = time.monotonic() - began
        if waited_s > REMOVE_WITHIN_S:
            raise SceneNotRemoved(
                f"Work of the scratch pool {name} did not end. The next verify removes it."
            )
        if waited_s > OWN_TICK_AFTER_S:  # the product was ended meanwhile
            run.run_tick(owner=name)
        time.sleep(0.2)
    _remove_files(removed)


def _try_remove(name: str, pool_id: int, asked: set[int]) -> nodes.RemovedWork | None:
    """Ask for the end of what still lives and remove the pool; None while something lives."""
    rows = _list_all(name)
    for row in rows:
        if row.id not in asked:
            asked.add(row.id)
            _delete_quietly(row.id)
    if rows:
        return None
    try:
        return nodes.remove_scratch_pool(pool_id=pool_id, authority=SYSTEM, now=_now())
    except NodeRefused:
        return None  # a replica of deleted work is still ending


def _delete_quietly(workload_id: int) -> None:
    try:
        workloads.delete_workload(workload_id=workload_id, authority=SYSTEM, now=_now())
    except NotFound:
        log.debug("verify.workload.gone", extra={"workload_id": workload_id})


def _list_all(pool_name: str) -> list[workload_queries.WorkloadRow]:
    rows: list[workload_queries.WorkloadRow] = []
    after = ""
    while True:
        page = workload_queries.list_workloads(
            visible=EVERYTHING,
            pool_name=pool_name,
            wanted=workload_queries.WorkloadFilter(after=after),
        )
        rows += page.rows
        if not page.next_after:
            return rows
        after = page.next_after


def _remove_files(removed: nodes.RemovedWork) -> None:
    """Remove the logs, working and checkpoint directories of work that is no more.

    The tick lets go of a replica a moment after its row is gone; only then nothing writes there.
    """
    engine = engines.engine()
    keys = {ReplicaKey(replica_id=number, attempt=attempt) for number, attempt in removed.replicas}
    settle(
        lambda: keys & {observation.key for observation in engine.observe()},
        until=lambda known: not known,
        within_s=FORGOTTEN_WITHIN_S,
    )
    for key in keys:
        engine.delete_log(key)
    for workload_id in removed.workload_ids:
        engine.delete_storage(f"workload-{workload_id}")
    asset_files.drop_trees(names=removed.trees)


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Let Ctrl-C wait while the scratch pool is removed."""

    def wait(_signum: int, _frame: FrameType | None) -> None:
        log.warning("verify.removing")

    before = {number: signal.signal(number, wait) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _now() -> datetime:
    return datetime.now(tz=UTC)
