"""A link without Ray: agents of this process, each with its own folder, that can fall silent or die."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scheduler.engines.base import Endpoint, EngineUnreachable, LaunchSpec, NodeInventory
from scheduler.remote.agent import NodeAgent, Post
from scheduler.remote.engine import RayEngine
from scheduler.remote.link import RayNode
from tests.engines.harness import LocalHarness


class DirectLink:
    """Calls agents as functions. ``alive``: whom the head calls alive; ``deaf``: who does not answer."""

    def __init__(self, folder: Path, *names: str, lease_s: int = 30) -> None:
        self.folder = folder
        self.lease_s = lease_s
        self.agents: dict[str, NodeAgent] = {}
        self.alive = set(names)
        self.deaf: set[str] = set()
        self.called: list[str] = []
        for name in names:
            self.start(name)

    def start(self, name: str) -> None:
        """Start an agent on a node's folder, as after the node's (re)start."""
        self.alive.add(name)
        self.agents[name] = NodeAgent(
            Post(
                node_name=name,
                host="127.0.0.1",
                data_dir=str(self.folder / name),
                shared_dir=str(self.folder / "shared"),
                virtual_devices=2,
                lease_s=self.lease_s,
                owner="tests",
            ),
            in_touch=lambda: name in self.alive,
        )

    def nodes(self) -> tuple[RayNode, ...]:
        return tuple(
            RayNode(name=name, pool_name="main", node_id=name, host="127.0.0.1")
            for name in sorted(self.alive)
        )

    def call(self, node: RayNode, method: str, *arguments: object) -> object:
        if node.name not in self.alive - self.deaf:
            raise EngineUnreachable(f"node {node.name} does not answer")
        self.called.append(method)
        return getattr(self.agents[node.name], method)(*arguments)

    def call_all(self, nodes, method: str, *, timeout_s: float) -> dict[RayNode, object]:
        heard = [node for node in nodes if node.name in self.alive - self.deaf]
        return {node: self.call(node, method) for node in heard}


class _OnTheSecond(RayEngine):
    """The engine of two nodes, for callers that name none: n2 is meant."""

    def launch(self, spec: LaunchSpec) -> None:
        super().launch(replace(spec, node_name=spec.node_name or "n2"))

    def find_meeting_point(self, node_name: str) -> Endpoint:
        return super().find_meeting_point(node_name or "n2")


class NodesHarness(LocalHarness):
    """The Ray engine over two agents of this process. What it runs is real, as with the local engine."""

    def __init__(self, data_dir: Path) -> None:
        self.link = DirectLink(data_dir, "n1", "n2")
        super().__init__(data_dir)

    def inventory(self) -> NodeInventory:
        self.engine.observe()
        return self.engine.joined_nodes()[0].inventory

    def _make(self):
        return _OnTheSecond(link=self.link)
