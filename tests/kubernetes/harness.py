"""The Kubernetes engine under test: a stand-in of the API server, two nodes, and pods as real processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from scheduler.engines.base import Endpoint, JoinedNode, LaunchSpec, NodeInventory, ReplicaKey
from scheduler.kubernetes.engine import KubernetesEngine
from scheduler.kubernetes.link import ApiLink
from scheduler.kubernetes.terms import POOL, VIRTUAL_DEVICES, Terms
from tests.engines.harness import LocalHarness
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.standin import Cluster, serving

NAMESPACE = "work"
CAPACITY = {"cpu": "8", "memory": "16Gi"}


class _OnTheSecond(KubernetesEngine):
    """The engine of two nodes, for callers that name none: n2 is meant."""

    def launch(self, spec: LaunchSpec) -> None:
        super().launch(replace(spec, node_name=spec.node_name or "n2"))


class KubernetesHarness(LocalHarness):
    """What it runs is real, as with the local engine; only that a pod stands around it."""

    engine: Any  # of another kind than the local one
    names_processes = False
    knows_commands = False

    def __init__(self, data_dir: Path, url: str, cluster: Cluster) -> None:
        self.url = url
        self.cluster = cluster
        self.terms = Terms(
            owner="0000-tests", namespace=NAMESPACE, image="work", folder=data_dir / "kept"
        )
        self.kubelets: dict[str, Kubelet] = {}
        for name in ("n1", "n2"):
            self.add_node(name, data_dir / name)
        super().__init__(data_dir)

    def add_node(self, name: str, folder: Path, **labels: str) -> Kubelet:
        """Have a node join."""
        kubelet = Kubelet(
            self.url,
            name,
            folder,
            labels={POOL: "main", VIRTUAL_DEVICES: "2", **labels},
            capacity=CAPACITY,
        )
        self.kubelets[name] = kubelet
        self.cluster.read_output[name] = kubelet.read_log
        return kubelet

    def serves(self) -> tuple[str, ...]:
        return ("sh", "-c", "exec python -m http.server $PORT --bind $HOST")

    def inventory(self) -> NodeInventory:
        self.engine.observe()
        first: JoinedNode = self.engine.joined_nodes()[0]
        return first.inventory

    def restart(self) -> None:
        self.engine.close()
        super().restart()

    def pod(self, key: ReplicaKey) -> dict:
        """Return a replica's pod as it is in the cluster."""
        return self.cluster.get(f"namespaces/{NAMESPACE}/pods/{self.terms.pod_name(key)}")

    def address(self, key: ReplicaKey) -> Endpoint:
        """Return where a service of a replica listens."""
        return Endpoint(host=self.pod(key)["status"]["podIP"], port=8080)

    def _make(self):
        return _OnTheSecond(api=ApiLink(url=self.url), terms=self.terms)


@contextmanager
def kubernetes(data_dir: Path) -> Iterator[KubernetesHarness]:
    """Give the engine over a stand-in, and end all that it runs after."""
    cluster = Cluster()
    with ExitStack() as stack:
        url = stack.enter_context(serving(cluster))
        harness = KubernetesHarness(data_dir, url, cluster)
        for kubelet in harness.kubelets.values():
            stack.callback(kubelet.stop)
        stack.callback(lambda: harness.engine.close())
        yield harness


def wait_until(is_so, *, what: str, patience_s: float = 30) -> None:
    """Wait until something is so."""
    until_s = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < until_s, f"never came: {what}"
        time.sleep(0.02)
