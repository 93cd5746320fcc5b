"""A stand-in of the Kubernetes API server over real HTTP: as much of it as the engine and a kubelet use.

Objects have versions; lists come in pages; watches go on from a version, send bookmarks and know when they
are too old (410); names are given once (409); a deletion has its grace and waits for finalizers.
"""

from __future__ import annotations

import base64
import copy
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from scheduler.kubernetes.link import ApiLink

Json = dict[str, Any]
Reader = Callable[[str, str, str | None], bytes]
BOOKMARK_S = 0.2


class ApiFailure(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Cluster:
    """All objects, by path below ``/api/v1``, and what happened to them."""

    #: What belongs to an object goes with it.
    removes_dependents = True

    def __init__(self) -> None:
        self.url = ""
        self.changed = threading.Condition()
        self.objects: dict[str, Json] = {}
        self.events: list[tuple[int, str, str, Json]] = []
        self.version = 100
        self.oldest = 0
        self.asked: list[tuple[str, str]] = []
        self.read_output: dict[str, Reader] = {}
        self.is_down = False

    # -- what a test does --------------------------------------------------------------------

    def forget_history(self) -> None:
        """Have every version of before be too old to go on from, and end all watches."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self.events.clear()
            self.changed.notify_all()

    def get(self, path: str) -> Json:
        """Return a copy of an object."""
        with self.changed:
            if path not in self.objects:
                raise ApiFailure(404, f"{path} not found")
            return copy.deepcopy(self.objects[path])

    @property
    def log_asks(self) -> int:
        """How often output was asked for."""
        return sum(path.endswith("/log") for _, path in self.asked)

    def has(self, path: str) -> bool:
        """Test whether an object is there."""
        return path in self.objects

    def names(self, collection: str) -> list[str]:
        """Return the names of what is in a collection."""
        return [one["metadata"]["name"] for one in self.select(collection, {})[0]]

    def evict(self, path: str) -> None:
        """Have a pod leave its node, as a drain does."""
        self.delete(path, {})

    def empty(self) -> None:
        """Remove what a test left: it goes with this object."""

    def client(self) -> httpx.Client:
        """Return how a kubelet speaks to the server."""
        return httpx.Client(base_url=f"{self.url}/api/v1", timeout=10, trust_env=False)

    def link(self) -> ApiLink:
        """Return how the engine does."""
        return ApiLink(url=self.url)

    def open_logs(self, node: str, reader: Reader) -> Json:
        """Have the server find a node's output; return what the node's status says of that."""
        self.read_output[node] = reader
        return {}

    # -- what the API does -------------------------------------------------------------------

    def create(self, collection: str, given: Json) -> Json:
        with self.changed:
            meta = given["metadata"]
            path = f"{collection}/{meta['name']}"
            if meta.get("resourceVersion"):
                raise ApiFailure(400, "resourceVersion should not be set on objects to be created")
            if path in self.objects:
                raise ApiFailure(409, f'{path} "{meta["name"]}" already exists')
            meta.update(uid=str(uuid.uuid4()), creationTimestamp=_stamp(datetime.now(UTC)))
            if collection.endswith("/pods"):
                given["status"] = {"phase": "Pending"}
            for name, text in given.pop("stringData", {}).items():
                given.setdefault("data", {})[name] = base64.b64encode(text.encode()).decode()
            return self._keep(path, given, "ADDED")

    def patch(self, path: str, change: Json, *, only_status: bool = False) -> Json:
        with self.changed:
            before = self.get(path)
            wanted = change.get("metadata", {})
            for name in ("resourceVersion", "uid"):
                if wanted.get(name, before["metadata"][name]) != before["metadata"][name]:
                    raise ApiFailure(409, f"{path} has been modified")
            change = {"status": change["status"]} if only_status else change
            after = _merged(before, change)
            if after["metadata"].get("deletionGracePeriodSeconds") == 0 and not _held(after):
                return self._remove(path, after)
            return self._keep(path, after, "MODIFIED")

    def delete(self, path: str, options: Json) -> Json:
        with self.changed:
            found = self.get(path)
            meta = found["metadata"]
            if options.get("preconditions", {}).get("uid", meta["uid"]) != meta["uid"]:
                raise ApiFailure(409, f"{path} is another object now")
            if "/pods/" not in path:
                return self._remove(path, found)
            own_s = found["spec"].get("terminationGracePeriodSeconds", 30)
            grace_s = int(options.get("gracePeriodSeconds", own_s))
            is_over = found["status"]["phase"] in ("Succeeded", "Failed")
            if not found["spec"].get("nodeName") or is_over:
                grace_s = 0
            known_s = meta.get("deletionGracePeriodSeconds")
            if known_s is not None and grace_s >= known_s:
                return found
            begun = datetime.now(UTC)
            if known_s is not None:
                begun = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(
                    seconds=known_s
                )
            meta["deletionTimestamp"] = _stamp(begun + timedelta(seconds=grace_s))
            meta["deletionGracePeriodSeconds"] = grace_s
            if grace_s == 0 and not _held(found):
                return self._remove(path, found)
            return self._keep(path, found, "MODIFIED")

    def select(self, collection: str, query: Json) -> tuple[list[Json], str]:
        with self.changed:
            found = [
                copy.deepcopy(one)
                for path, one in sorted(self.objects.items())
                if _lies_in(path.rpartition("/")[0], collection) and _fits(one, query)
            ]
            return found, str(self.version)

    def watch(self, collection: str, query: Json) -> Iterator[Json]:
        since, until_s = (
            int(query["resourceVersion"]),
            time.monotonic() + int(query["timeoutSeconds"]),
        )
        bookmark_at_s = time.monotonic() + BOOKMARK_S
        while time.monotonic() < until_s and not self.is_down:
            with self.changed:
                if since < self.oldest:
                    yield _event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
                    return
                fresh = [e for e in self.events if e[0] > since]
                if not fresh:
                    self.changed.wait(0.05)
            for version, where, kind, one in fresh:
                since = version
                if _lies_in(where, collection) and _fits(one, query):
                    yield _event(kind, one)
            if time.monotonic() >= bookmark_at_s and not fresh:
                bookmark_at_s = time.monotonic() + BOOKMARK_S
                yield _event("BOOKMARK", {"metadata": {"resourceVersion": str(since)}})

    def _keep(self, path: str, one: Json, kind: str) -> Json:
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = copy.deepcopy(one)
        self._tell(path, kind, one)
        return copy.deepcopy(one)

    def _remove(self, path: str, one: Json) -> Json:
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self.objects.pop(path)
        self._tell(path, "DELETED", one)
        for other, held in list(self.objects.items()):  # the garbage collector
            owners = held["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == one["metadata"]["uid"] for owner in owners):
                self._remove(other, held)
        return copy.deepcopy(one)

    def _tell(self, path: str, kind: str, one: Json) -> None:
        self.events.append((self.version, path.rpartition("/")[0], kind, copy.deepcopy(one)))
        self.changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_PATCH(self) -> None:
        self._answer(
            lambda path, _query, body: self.cluster.patch(
                path.removesuffix("/status"), body, only_status=path.endswith("/status")
            )
        )

    def do_DELETE(self) -> None:
        self._answer(lambda path, _query, body: self.cluster.delete(path, body))

    def _get(self, path: str, query: Json, _body: Json) -> Json | None:
        if query.get("watch") == "true":
            self._stream(self.cluster.watch(path, query))
            return None
        if path.endswith("/log"):
            self._send_log(path.removesuffix("/log"), query)
            return None
        if path.rpartition("/")[2] not in ("pods", "nodes", "secrets"):
            return self.cluster.get(path)
        found, version = self.cluster.select(path, query)
        begin = int(query.get("continue", "0"))
        end = begin + int(query.get("limit", "500"))
        more = {"continue": str(end)} if end < len(found) else {}
        return {"items": found[begin:end], "metadata": {"resourceVersion": version, **more}}

    def _post(self, path: str, query: Json, body: Json) -> Json:
        if path.endswith("/eviction"):
            return self.cluster.delete(path.removesuffix("/eviction"), {})
        return self.cluster.create(path, body)

    def _send_log(self, path: str, query: Json) -> None:
        pod = self.cluster.get(path)
        reader = self.cluster.read_output.get(pod["spec"].get("nodeName", ""))
        if reader is None:
            raise ApiFailure(500, "the kubelet does not answer")
        data = reader(pod["metadata"]["uid"], query.get("container", ""), query.get("sinceTime"))
        self._send(200, data, "text/plain")

    def _answer(self, do: Callable[[str, Json, Json], Json | None]) -> None:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/api/v1/")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        self.cluster.asked.append((self.command, path))
        try:
            if self.cluster.is_down:
                raise ApiFailure(503, "the server is away")
            found = do(path, query, body)
        except ApiFailure as failure:
            told = {"kind": "Status", "code": failure.status, "message": failure.message}
            self._send(failure.status, json.dumps(told).encode(), "application/json")
            return
        if found is not None:
            self._send(200, json.dumps(found).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[Json]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in events:
                data = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


@contextmanager
def serving(cluster: Cluster) -> Iterator[str]:
    """Serve a cluster; give the address."""
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    cluster.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield cluster.url
    finally:
        cluster.is_down = True
        server.shutdown()
        server.server_close()
        thread.join()


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _held(one: Json) -> bool:
    return bool(one["metadata"].get("finalizers"))


def _event(kind: str, one: Json) -> Json:
    return {"type": kind, "object": one}


def _merged(before: Any, change: Any) -> Any:
    """Merge as RFC 7386 says."""
    if not isinstance(change, dict):
        return change
    after = dict(before) if isinstance(before, dict) else {}
    for name, value in change.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = _merged(after.get(name), value)
    return after


def _lies_in(where: str, collection: str) -> bool:
    """Test whether a collection is the one that was asked for, or one of all namespaces."""
    return where == collection or where.endswith(f"/{collection}")


def _fits(one: Json, query: Json) -> bool:
    labels = one["metadata"].get("labels") or {}
    wanted = [w.partition("=") for w in query.get("labelSelector", "").split(",") if w]
    node = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
    is_there = not node or one.get("spec", {}).get("nodeName") == node
    return is_there and all(labels.get(name) == value for name, _, value in wanted)
