"""A mirror of objects of one kind: listed once, then kept by a watch that goes on where it was.

The resource version of the last event, or of a bookmark, is where the next watch begins. Where the
server no longer knows it (410), all is listed anew. A server that is away tells nothing, not "nothing".
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from typing import Any, Protocol

from scheduler.engines.base import EngineError, EngineUnreachable
from scheduler.kubernetes.link import Gone, Json

log = logging.getLogger(__name__)

#: A watch is begun anew after so long: a connection that has died unseen is found within it.
WATCH_S = 10
PAGE = 500
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
FIRST_LIST_S = 10.0


class Source(Protocol):
    """What lists and watches (``link.py``)."""

    def call(
        self, method: str, path: str, *, query: Json | None = None, body: Json | None = None
    ) -> Json: ...
    def watch(self, path: str, *, query: Json, timeout_s: int) -> Any: ...


class Mirror:
    """All objects below a path that a selector selects, by name."""

    def __init__(
        self,
        source: Source,
        path: str,
        *,
        selector: str = "",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._path = path
        self._query: Json = {"labelSelector": selector} if selector else {}
        self._on_change = on_change
        self._lock = threading.Lock()
        self._objects: dict[str, Json] = {}
        self._version = ""
        self._listed_version = 0
        self._trouble = "it was not asked yet"
        self._is_asked = threading.Event()
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self.lists = 0

    def objects(self) -> dict[str, Json]:
        """Return what is there. The first question waits until all was listed, or could not be.

        Raises:
            EngineUnreachable: what is here may not be true now.
        """
        self._begin()
        self._is_asked.wait(FIRST_LIST_S)
        with self._lock:
            if self._trouble:
                raise EngineUnreachable(f"Kubernetes does not answer: {self._trouble}")
            return dict(self._objects)

    def put(self, found: Json) -> None:
        """Take in what a call of our own returned, unless something newer is here or it is gone since."""
        with self._lock:
            known = self._objects.get(_name(found))
            least = self._listed_version if known is None else _version(known)
            if _version(found) > least:
                self._objects[_name(found)] = found

    def drop(self, name: str, uid: str) -> None:
        """Take out what a call of our own removed."""
        with self._lock:
            if (known := self._objects.get(name)) and known["metadata"]["uid"] == uid:
                del self._objects[name]

    def stop(self) -> None:
        """End the watch; it may take until the server ends it."""
        self._is_over.set()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="kube-watch", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_over.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
                pause_s = _FIRST_PAUSE_S
            except Gone:
                log.info("kubernetes.watch.gone", extra={"path": self._path})
                self._version = ""
            except Exception as error:
                if not isinstance(error, EngineError):
                    log.exception("kubernetes.watch.failed", extra={"path": self._path})
                with self._lock:
                    self._trouble = str(error) or type(error).__name__
                self._is_asked.set()
                log.warning(
                    "kubernetes.watch.trouble", extra={"path": self._path, "why": str(error)}
                )
                self._is_over.wait(pause_s * random.uniform(0.5, 1))
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _list(self) -> None:
        found: dict[str, Json] = {}
        more = ""
        while True:
            asked = {**self._query, "limit": PAGE, **({"continue": more} if more else {})}
            page = self._source.call("GET", self._path, query=asked)
            found.update((_name(item), item) for item in page.get("items") or ())
            more = page["metadata"].get("continue", "")
            if not more:
                break
        self.lists += 1
        self._version = page["metadata"]["resourceVersion"]
        with self._lock:
            newer = {n: o for n, o in self._objects.items() if _version(o) > int(self._version)}
            self._objects = {**found, **newer}
            self._listed_version = int(self._version)
            self._trouble = ""
        self._is_asked.set()
        self._on_change()

    def _watch(self) -> None:
        query = {**self._query, "resourceVersion": self._version, "allowWatchBookmarks": "true"}
        for event in self._source.watch(self._path, query=query, timeout_s=WATCH_S):
            with self._lock:
                self._trouble = ""
            self._take(event["type"], event["object"])
            if self._is_over.is_set():
                return
        with self._lock:
            self._trouble = ""

    def _take(self, kind: str, found: Json) -> None:
        if kind == "ERROR":
            if found.get("code") == 410:
                raise Gone(str(found.get("message")))
            raise EngineUnreachable(f"the watch failed: {found.get('message')}")
        with self._lock:
            self._version = found["metadata"]["resourceVersion"]
            known = self._objects.get(_name(found))
            is_newer = known is None or _version(found) >= _version(known)
            if kind == "DELETED" and is_newer:
                self._objects.pop(_name(found), None)
            elif kind in ("ADDED", "MODIFIED") and is_newer:
                self._objects[_name(found)] = found
        if kind != "BOOKMARK":
            self._on_change()


def _name(found: Json) -> str:
    return str(found["metadata"].get("name", ""))


def _version(found: Json) -> int:
    """Return a resource version as a number: the API promises that those of one kind compare so."""
    return int(found["metadata"]["resourceVersion"])
