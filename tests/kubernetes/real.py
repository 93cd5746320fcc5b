"""What a test does with a real API server, in the words of the stand-in; and a kubelet's door for logs."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import httpx

from scheduler.kubernetes.link import ApiLink
from tests.kubernetes.server import ApiServer, Json, self_signed
from tests.kubernetes.standin import ApiFailure, Reader

_MERGE = {"Content-Type": "application/merge-patch+json"}


class RealCluster:
    """One API server between two tests: objects by their path below ``/api/v1``."""

    #: Controllers remove what belongs to a removed object; none runs here.
    removes_dependents = False

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server = server
        self.read_output: dict[str, Reader] = {}
        self.log_asks = 0
        self._namespace = namespace
        self._is_down = False
        self._http = server.client()
        self._doors = ExitStack()

    # -- what a test does --------------------------------------------------------------------

    @property
    def is_down(self) -> bool:
        """Whether the server is away."""
        return self._is_down

    @is_down.setter
    def is_down(self, wanted: bool) -> None:
        if wanted and not self._is_down:
            self.server.stop()
        if self._is_down and not wanted:
            self.server.start()
        self._is_down = wanted

    def forget_history(self) -> None:
        """Have the server begin anew, later than all that a watch has seen, with no past."""
        self.create("namespaces", {"metadata": {"generateName": "later-"}})
        self.is_down = True
        self.server.compact()
        self.is_down = False

    def get(self, path: str) -> Json:
        """Return an object."""
        return self._ask("GET", path)

    def has(self, path: str) -> bool:
        """Test whether an object is there."""
        try:
            self.get(path)
        except ApiFailure as failure:
            if failure.status != 404:
                raise
            return False
        return True

    def names(self, collection: str) -> list[str]:
        """Return the names of what is in a collection."""
        return [one["metadata"]["name"] for one in self._ask("GET", collection)["items"]]

    def create(self, collection: str, given: Json) -> Json:
        """Make an object."""
        return self._ask("POST", collection, body=given)

    def patch(self, path: str, change: Json) -> Json:
        """Merge a change into an object."""
        return self._ask("PATCH", path, body=change)

    def delete(self, path: str, options: Json) -> Json:
        """Delete an object."""
        return self._ask("DELETE", path, body=options)

    def evict(self, path: str) -> None:
        """Have a pod leave its node, as a drain does."""
        name = path.rpartition("/")[2]
        meta = {"name": name, "namespace": self._namespace}
        asked = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": meta}
        self._ask("POST", f"{path}/eviction", body=asked)

    def empty(self) -> None:
        """Remove what a test left."""
        self.is_down = False
        for kind in ("pods", "secrets"):
            collection = f"namespaces/{self._namespace}/{kind}"
            for name in self.names(collection):
                if kind == "pods":
                    self.patch(f"{collection}/{name}", {"metadata": {"finalizers": None}})
                if self.has(f"{collection}/{name}"):
                    self.delete(f"{collection}/{name}", {"gracePeriodSeconds": 0})
        for name in self.names("nodes"):
            self.delete(f"nodes/{name}", {})
        self._doors.close()
        self._http.close()

    def _ask(self, method: str, path: str, *, body: Json | None = None) -> Json:
        headers = _MERGE if method == "PATCH" else {}
        answer = self._http.request(method, f"/api/v1/{path}", json=body, headers=headers)
        if answer.status_code >= 300:
            raise ApiFailure(answer.status_code, answer.text)
        found: Json = answer.json()
        return found

    # -- the kubelet's side ------------------------------------------------------------------

    def client(self) -> httpx.Client:
        """Return how a kubelet speaks to the server."""
        http = self.server.client()
        http.base_url = httpx.URL(f"{self.server.url}/api/v1")
        return http

    def link(self) -> ApiLink:
        """Return how the engine does: as the account of the deployment, with its rights."""
        return ApiLink(kubeconfig=self.server.kubeconfig())

    def open_logs(self, node: str, reader: Reader) -> Json:
        """Have the server find a node's output; return what the node's status says of that."""
        self.read_output[node] = reader
        port = self._doors.enter_context(_log_door(self, node))
        return {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }

    def send_log(self, node: str, pod_name: str, container: str, since: str | None) -> bytes:
        """Return what the kubelet of a node would: the output of a pod."""
        self.log_asks += 1
        reader = self.read_output.get(node)
        if reader is None:
            raise ApiFailure(500, "the kubelet does not answer")
        pod = self.get(f"namespaces/{self._namespace}/pods/{pod_name}")
        return reader(pod["metadata"]["uid"], container, since)


@contextmanager
def _log_door(cluster: RealCluster, node: str) -> Iterator[int]:
    """Serve a node's logs to the API server over TLS, as a kubelet does; give the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            _, kind, _namespace, pod_name, container = parts.path.split("/")
            assert (kind, query["timestamps"]) == ("containerLogs", "true")
            status, data = 200, b""
            try:
                data = cluster.send_log(node, pod_name, container, query.get("sinceTime"))
            except ApiFailure as failure:
                status, data = failure.status, failure.message.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    key, certificate = self_signed(node)
    chain = cluster.server.folder / f"{node}.pem"
    chain.write_bytes(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
