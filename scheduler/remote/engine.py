"""The Ray engine: replicas on many machines, each carried out by the agent of its node."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from scheduler.engines import leases
from scheduler.engines.base import (
    Endpoint,
    EngineError,
    EngineUnreachable,
    JoinedNode,
    LaunchSpec,
    LogChunk,
    NodeInventory,
    Observation,
    Orphan,
    ProgressReport,
    ReplicaKey,
    Standing,
)
from scheduler.remote.link import RayNode
from scheduler.telemetry.base import DeviceSample, ReplicaSample, SampleTarget

log = logging.getLogger(__name__)

#: A node that has been out of touch for so long has ended its work by itself (``engines/leases.py``).
LEASE_S = 30
_MARGIN_S = 5
#: How long a look waits for nodes that are slow to answer; they are silent then.
LOOK_S = 2.0


def name_on(name: str, *, machine: str) -> str:
    """Return the name of a further node that a machine carries: a scratch pool's, with devices of its own."""
    return f"{name}@{machine}"


def machine_of(node_name: str) -> str:
    """Return the machine that carries a node: the node itself, unless its name says another."""
    return node_name.rpartition("@")[2]


@dataclass(slots=True)
class _Progress:
    """What replicas reported, of one look; and after which report each was last asked for."""

    look: int = 0
    found: dict[ReplicaKey, tuple[ProgressReport, ...]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    after: dict[ReplicaKey, int] = field(default_factory=dict)

    def begin(self, look: int) -> None:
        """Forget what was found, unless it is of this look."""
        if look != self.look:
            self.look, self.found, self.silent = look, {}, set()


class Link(Protocol):
    """What carries calls to agents (``link.py``; in tests, one in memory)."""

    def nodes(self) -> tuple[RayNode, ...]: ...
    def call(self, node: RayNode, method: str, *arguments: object) -> Any: ...
    def call_all(
        self, nodes: tuple[RayNode, ...], method: str, *, timeout_s: float
    ) -> Mapping[RayNode, Any]: ...


class RayEngine:
    """Runs replicas on the nodes of a Ray cluster.

    Which nodes there are is asked at each look, so that a node that comes, goes, or comes back is no
    special case. After a restart of this process the next look tells all there is to know.
    """

    def __init__(
        self,
        *,
        link: Link,
        lease_s: int = LEASE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._gone_after_s = lease_s + leases.GRACE_S + _MARGIN_S
        self._monotonic = monotonic
        self._alive: dict[str, RayNode] = {}
        self._answered: dict[str, NodeInventory] = {}
        self._home: dict[ReplicaKey, str] = {}
        self._dead_since_s: dict[str, float] = {}
        self._looked_at_s = -math.inf
        self._looks = 0
        self._progress = _Progress()

    # -- the protocol ------------------------------------------------------------------------

    def observe(self) -> tuple[Observation, ...]:
        """Return all replicas that were launched and not forgotten, by key, of nodes that answer."""
        self._look_anew()
        looks = self._link.call_all(tuple(self._alive.values()), "look", timeout_s=LOOK_S)
        self._answered = {node.name: look.inventory for node, look in looks.items()}
        for name in self._alive:
            self._dead_since_s.pop(name, None)
        found = sorted((o for look in looks.values() for o in look.observations), key=_by_key)
        self._home.update({one.key: one.node_name for one in found})
        return tuple(found)

    def standing(self, node_name: str) -> Standing:
        """Return what the last look says of a node.

        A node that the head calls dead is silent until its lease is over for certain. One that was
        never seen may have been of a head before this one, and counts from the first question on.
        """
        machine = machine_of(node_name)
        if machine in self._answered:
            return Standing.ANSWERS
        if machine in self._alive:
            return Standing.SILENT
        since_s = self._dead_since_s.setdefault(machine, self._monotonic())
        is_over = self._monotonic() - since_s > self._gone_after_s
        return Standing.GONE if is_over else Standing.SILENT

    def joined_nodes(self) -> tuple[JoinedNode, ...]:
        """Return the machines that answered the last look."""
        return tuple(
            JoinedNode(name=name, pool_name=self._alive[name].pool_name, inventory=inventory)
            for name, inventory in sorted(self._answered.items())
        )

    def launch(self, spec: LaunchSpec) -> None:
        """Start the replica on its node. Does nothing where this key was launched before."""
        self._home[spec.key] = machine_of(spec.node_name)
        self._link.call(self._node(spec.node_name), "launch", spec)

    def terminate(self, key: ReplicaKey, *, grace_s: int, reason: str) -> None:
        """SIGTERM to every process, SIGKILL after the grace period. Returns at once."""
        node = self._find_home(key)
        if node is not None:
            self._link.call(node, "terminate", key, grace_s, reason)

    def forget(self, key: ReplicaKey) -> None:
        """Drop an ended replica, whose end is recorded. Its log stays readable."""
        node = self._find_home(key)
        if node is not None:
            self._link.call(node, "forget", key)
        self._home.pop(key, None)
        self._progress.after.pop(key, None)

    def read_log(self, key: ReplicaKey, *, offset: int | None, limit_bytes: int) -> LogChunk:
        """Return output from ``offset`` on, or the last ``limit_bytes`` where it is None."""
        node = self._find_home(key)
        if node is None:
            raise EngineUnreachable("the node that has this output is not there now")
        chunk: LogChunk = self._link.call(node, "read_log", key, offset, limit_bytes)
        return chunk

    def read_progress(self, key: ReplicaKey, *, after: int) -> tuple[ProgressReport, ...]:
        """Return what a replica that is not forgotten reported on its output after report ``after``.

        Whoever asks for one asks for all: the first question after a look brings those of the whole node,
        or that it does not answer.
        """
        node = self._find_home(key)
        if node is None:
            return ()
        known = self._progress
        known.begin(self._looks)
        known.after[key] = after
        if node.name in known.silent:
            raise EngineUnreachable(f"node {node.name} does not answer")
        if key not in known.found:
            mine = [key, *(each for each in known.after if self._home.get(each) == node.name)]
            wanted = tuple((each, known.after[each]) for each in dict.fromkeys(mine))
            try:
                known.found |= self._link.call(node, "read_progress_of_all", wanted)
            except EngineUnreachable:
                known.silent.add(node.name)
                raise
        return tuple(report for report in known.found[key] if report.number > after)

    def delete_log(self, key: ReplicaKey) -> None:
        """Drop the output of a replica that was forgotten."""
        node = self._find_home(key)
        if node is not None:
            self._link.call(node, "delete_log", key)

    def delete_storage(self, storage_key: str) -> None:
        """Drop the directories of a workload that is no more, on every node: they may not be shared."""
        for node in self._look_for_nodes():
            self._link.call(node, "delete_storage", storage_key)

    def find_meeting_point(self, node_name: str) -> Endpoint:
        """Return where a gang can meet on a node."""
        point: Endpoint = self._link.call(self._node(node_name), "find_meeting_point")
        return point

    def orphans(self) -> tuple[Orphan, ...]:
        """Return live processes of nodes that answer which belong to no known replica."""
        answers = self._link.call_all(self._look_for_nodes(), "orphans", timeout_s=LOOK_S)
        return tuple(orphan for found in answers.values() for orphan in found)

    def end_orphan(self, orphan: Orphan) -> None:
        """SIGKILL an orphan, if it still is the process that was listed."""
        self._link.call(self._node(orphan.node_name), "end_orphan", orphan)

    def wait_for_change(self, *, timeout_s: float) -> bool:
        """Return at once: a change on another machine is seen at the next look."""
        return False

    # -- telemetry ---------------------------------------------------------------------------

    def sample(self, targets: tuple[SampleTarget, ...]) -> dict[ReplicaKey, ReplicaSample]:
        """Return what could be measured, by key, each on its own node."""
        by_node: dict[str, list[SampleTarget]] = {}
        for target in targets:
            key = ReplicaKey(replica_id=target.replica_id, attempt=target.attempt)
            if self._home.get(key, "") in self._answered:
                by_node.setdefault(self._home[key], []).append(target)
        taken: dict[ReplicaKey, ReplicaSample] = {}
        for name, own in by_node.items():
            try:
                samples = self._link.call(self._node(name), "sample", tuple(own))
            except EngineError:
                log.warning("remote.sample.failed", extra={"node": name}, exc_info=True)
                continue  # unknown, of this node alone
            for sample in samples:
                taken[ReplicaKey(replica_id=sample.replica_id, attempt=sample.attempt)] = sample
        return taken

    def sample_devices(self) -> tuple[DeviceSample, ...]:
        """Return one sample for each real device of nodes that answer."""
        answers = self._link.call_all(self._look_for_nodes(), "sample_devices", timeout_s=LOOK_S)
        return tuple(sample for found in answers.values() for sample in found)

    # -- nodes -------------------------------------------------------------------------------

    def _look_for_nodes(self) -> tuple[RayNode, ...]:
        """Return the nodes that are there. A process that never observes asks anew when that is old."""
        if self._monotonic() - self._looked_at_s > LOOK_S:
            self._look_anew()
        return tuple(self._alive.values())

    def _look_anew(self) -> None:
        self._looked_at_s = self._monotonic()
        self._looks += 1
        self._alive = {node.name: node for node in self._link.nodes()}

    def _node(self, name: str) -> RayNode:
        self._look_for_nodes()
        node = self._alive.get(machine_of(name))
        if node is None:
            raise EngineUnreachable(f"node {name} is not there now")
        return node

    def _find_home(self, key: ReplicaKey) -> RayNode | None:
        """Return the node that a replica is on; None where no node that is there knows of it."""
        name = self._home.get(key)
        if name is not None:
            return self._node(name)
        trouble: EngineUnreachable | None = None
        for node in self._look_for_nodes():
            try:
                has_it = self._link.call(node, "has_log", key)
            except EngineUnreachable as error:
                trouble = error
                continue
            if has_it:
                self._home[key] = node.name
                return node
        if trouble is not None:  # it may be there
            raise trouble
        return None


def _by_key(seen: Observation) -> ReplicaKey:
    return seen.key
