"""The Kubernetes engine under test: an API server or a stand-in, two nodes, and pods as real processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from scheduler.engines.base import Endpoint, JoinedNode, LaunchSpec, NodeInventory, ReplicaKey
from scheduler.kubernetes.engine import KubernetesEngine
from scheduler.kubernetes.terms import POOL, VIRTUAL_DEVICES, Terms
from tests.engines.harness import LocalHarness
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.real import RealCluster
from tests.kubernetes.server import ApiServer
from tests.kubernetes.standin import Cluster, serving

NAMESPACE = "tidegate-work"
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

    def __init__(self, data_dir: Path, cluster: Cluster | RealCluster) -> None:
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
        logs = self.cluster.open_logs(name, lambda *asked: self.kubelets[name].read_log(*asked))
        kubelet = Kubelet(
            self.cluster.client(),
            name,
            folder,
            labels={POOL: "main", VIRTUAL_DEVICES: "2", **labels},
            status={"capacity": CAPACITY, "allocatable": CAPACITY, **logs},
        )
        self.kubelets[name] = kubelet
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
        return self.cluster.get(self.pod_path(key))

    def pod_path(self, key: ReplicaKey) -> str:
        """Return where a replica's pod is."""
        return f"namespaces/{NAMESPACE}/pods/{self.terms.pod_name(key)}"

    def address(self, key: ReplicaKey) -> Endpoint:
        """Return where a service of a replica listens."""
        return Endpoint(host=self.pod(key)["status"]["podIP"], port=8080)

    def _make(self):
        return _OnTheSecond(api=self.cluster.link(), terms=self.terms)


@contextmanager
def kubernetes(data_dir: Path, server: ApiServer | None = None) -> Iterator[KubernetesHarness]:
    """Give the engine over a real API server, else over a stand-in; end all that it runs after."""
    with ExitStack() as stack:
        cluster: Cluster | RealCluster
        if server is None:
            cluster = Cluster()
            stack.enter_context(serving(cluster))
        else:
            cluster = RealCluster(server, NAMESPACE)
        stack.callback(cluster.empty)
        harness = KubernetesHarness(data_dir, cluster)
        for kubelet in harness.kubelets.values():
            stack.callback(kubelet.stop)
        stack.callback(lambda: harness.engine.close())
        yield harness


def wait_until(is_so, *, what: str, patience_s: float = 60) -> None:
    """Wait until something is so."""
    until_s = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < until_s, f"never came: {what}"
        time.sleep(0.02)
