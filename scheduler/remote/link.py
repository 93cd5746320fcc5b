"""Ray, and nothing else of it than this: which nodes are there, and calls to their agents.

Ray is told to choose nothing: an agent is bound to its node and asks for no CPU and no GPU. Which
device a replica gets is the scheduler's choice alone.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.engines.base import EngineError, EngineUnreachable
from scheduler.remote.agent import NodeAgent, read_post

log = logging.getLogger(__name__)

NAMESPACE = "tidegate"
NODE_LABEL, POOL_LABEL = "tidegate-node", "tidegate-pool"
CALL_TIMEOUT_S = 10.0
_THREADS = 8
#: A node that is slow to answer is given more time, up to so long; a question that old counts for nothing.
MOST_PATIENCE_S, GIVE_UP_S = 8.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """One machine of the Ray cluster that has joined as a node of Tidegate."""

    name: str
    pool_name: str
    node_id: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What a node was asked and has not answered in time."""

    answer: Any
    asked_at_s: float


class _Agent(NodeAgent):
    """The agent as an actor: it is in touch while the head says that its node is alive."""

    def __init__(self, *, lease_s: int, owner: str) -> None:
        import ray

        self._node_id = ray.get_runtime_context().get_node_id()
        host = ray.util.get_node_ip_address()
        super().__init__(
            read_post(host=host, lease_s=lease_s, owner=owner), in_touch=self._is_alive
        )

    def _is_alive(self) -> bool:
        import ray

        return any(node["NodeID"] == self._node_id and node["Alive"] for node in ray.nodes())


class RayLink:
    """A driver of the Ray cluster in this process. Connects beside, so that nobody waits for it."""

    def __init__(self, *, address: str, token_file: str, lease_s: int, owner: str) -> None:
        self._address = address
        self._token_file = token_file
        self._lease_s = lease_s
        self._owner = owner
        self._agents: dict[str, Any] = {}
        self._open: dict[tuple[str, str], _Question] = {}
        self._patience_s: dict[str, float] = {}
        self._module: Any = None
        self._connecting: threading.Thread | None = None
        self._trouble = ""
        self._lock = threading.Lock()

    def nodes(self) -> tuple[RayNode, ...]:
        """Return the nodes that the head says are alive, one of each name.

        Raises:
            EngineUnreachable: there is no connection to the cluster now.
        """
        ray = self._ray()
        found: dict[str, RayNode] = {}
        try:
            told = ray.nodes()
        except _troubles(ray) as error:
            raise EngineUnreachable(f"the head does not answer: {error}") from error
        for node in sorted(told, key=lambda node: str(node["NodeID"])):
            labels = node.get("Labels") or {}
            name = labels.get(NODE_LABEL)
            if not node["Alive"] or not name:
                continue
            if name in found:
                log.error("remote.node.name_taken", extra={"node": name, "id": node["NodeID"]})
                continue
            found[name] = RayNode(
                name=name,
                pool_name=labels.get(POOL_LABEL, ""),
                node_id=node["NodeID"],
                host=node["NodeManagerAddress"],
            )
        return tuple(found.values())

    def call(self, node: RayNode, method: str, *arguments: object) -> Any:
        """Call a method of a node's agent and return what it returns.

        Raises:
            EngineUnreachable: it does not answer in time.
            EngineError: what the agent's engine raised.
        """
        ray = self._ray()
        try:
            answer = getattr(self._agent(node), method).remote(*arguments)
            return ray.get(answer, timeout=CALL_TIMEOUT_S)
        except ray.exceptions.RayTaskError as error:
            raise _what_it_was(error) from error
        except _troubles(ray) as error:
            self._agents.pop(node.node_id, None)
            raise EngineUnreachable(f"node {node.name} does not answer: {error}") from error

    def call_all(
        self, nodes: Iterable[RayNode], method: str, *, timeout_s: float
    ) -> Mapping[RayNode, Any]:
        """Call a method of many agents at once; return what came in time, by node.

        A node that still has the last question of this kind is not asked again: one more would only
        lengthen its queue. An answer that comes late is not used, as it tells how things were. The next
        question waits longer for that node.

        Raises:
            EngineUnreachable: the head does not answer.
        """
        ray = self._ray()
        try:
            free = [node for node in nodes if not self._is_being_asked(ray, node, method)]
            asked = {getattr(self._agent(node), method).remote(): node for node in free}
            if not asked:
                return {}
            asked_at_s = time.monotonic()
            patience_s = max(timeout_s, *(self._patience_s.get(n.node_id, 0.0) for n in free))
            ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=patience_s)
        except _troubles(ray) as error:
            raise EngineUnreachable(f"the head does not answer: {error}") from error
        for answer in late:
            question = _Question(answer=answer, asked_at_s=asked_at_s)
            self._open[(asked[answer].node_id, method)] = question
        if time.monotonic() - asked_at_s < timeout_s:
            self._patience_s = {}
        answers = {}
        for answer in ready:
            node = asked[answer]
            try:
                answers[node] = ray.get(answer)
            except _troubles(ray):
                log.warning("remote.node.failed", extra={"node": node.name}, exc_info=True)
                self._agents.pop(node.node_id, None)
        return answers

    def _is_being_asked(self, ray: Any, node: RayNode, method: str) -> bool:
        """Test whether a node still has a question of this kind to answer; note how long one took."""
        question = self._open.get((node.node_id, method))
        if question is None:
            return False
        answered, _ = ray.wait([question.answer], num_returns=1, timeout=0)
        took_s = time.monotonic() - question.asked_at_s
        if not answered and took_s < GIVE_UP_S:
            return True
        del self._open[(node.node_id, method)]
        if answered:
            self._patience_s[node.node_id] = min(1.5 * took_s, MOST_PATIENCE_S)
        return False

    def _agent(self, node: RayNode) -> Any:
        """Return the agent of a node, begun where none is there. Does not wait for it."""
        ray = self._ray()
        known = self._agents.get(node.node_id)
        if known is None:
            bound = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                node_id=node.node_id, soft=False
            )
            options = {
                "name": f"agent-{self._owner}-{node.node_id}",
                "namespace": NAMESPACE,
                "get_if_exists": True,
                "lifetime": "detached",
                "max_restarts": -1,
                "max_concurrency": _THREADS,
                "num_cpus": 0,
                "num_gpus": 0,
                "scheduling_strategy": bound,
            }
            actor = ray.remote(_Agent).options(**options)
            known = actor.remote(lease_s=self._lease_s, owner=self._owner)
            self._agents[node.node_id] = known
        return known

    def _ray(self) -> Any:
        """Return the module, connected."""
        if self._module is not None and self._module.is_initialized():
            return self._module
        with self._lock:
            if self._connecting is None or not self._connecting.is_alive():
                self._connecting = threading.Thread(target=self._connect, name="ray", daemon=True)
                self._connecting.start()
        raise EngineUnreachable(f"no connection to Ray at {self._address} yet {self._trouble}")

    def _connect(self) -> None:
        if self._token_file:  # Ray reads these two when it is loaded, and nowhere else
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ["RAY_AUTH_TOKEN_PATH"] = self._token_file
        try:
            import ray
            import ray.util.scheduling_strategies

            # A command's output is its own.
            logging.getLogger("ray").addHandler(logging.NullHandler())
            ray.init(
                address=self._address,
                namespace=NAMESPACE,
                log_to_driver=False,
                configure_logging=False,
                _node_ip_address=self._address.rpartition(":")[0],
            )
            self._module, self._trouble = ray, ""
        except ImportError:
            self._trouble = "(Ray is not installed here: start with TIDEGATE_RAY_ADDRESS set)"
            log.exception("remote.connect.no_ray")
        except (OSError, RuntimeError, ValueError) as error:
            self._trouble = f"({error})"
            log.warning("remote.connect.failed", extra={"address": self._address}, exc_info=True)


def _troubles(ray: Any) -> tuple[type[Exception], ...]:
    """Return what Ray raises where head or node are away."""
    return (ray.exceptions.RayError, OSError, RuntimeError, ValueError)


def _what_it_was(error: Any) -> EngineError:
    """Return the engine's own error that an agent raised, or what went wrong as one."""
    cause = error.cause
    if isinstance(cause, EngineError):
        return cause
    return EngineUnreachable(f"the agent failed: {cause!r}")
