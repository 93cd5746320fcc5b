"""The output of pods, taken from the API into the kept files: by and by while they run, and to its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Protocol

from scheduler.engines.base import EngineError, ReplicaKey
from scheduler.kubernetes import reading
from scheduler.kubernetes import terms as words
from scheduler.kubernetes.link import Json, Refused
from scheduler.kubernetes.mirror import Source
from scheduler.kubernetes.output import Keeper, Kept
from scheduler.kubernetes.terms import Terms

log = logging.getLogger(__name__)

#: How long the output of what has ended is asked for, from the first time that it was not to be had.
_DRAIN_PATIENCE_S = 15
#: Output of running work is taken this often, or so many pods a second where there are more.
_TAKE_EVERY_S, _TAKES_A_SECOND = 2.0, 25
_READERS = 4
_DEFAULT_LOG_MIB = 50


class Api(Source, Protocol):
    """What the engine asks of the API server (``link.py``)."""

    def read(self, path: str, *, query: Json) -> Iterator[bytes]: ...


class Outputs:
    """The kept output of all replicas of one engine, and the readers that bring it."""

    def __init__(self, api: Api, *, terms: Terms, pods_path: str) -> None:
        self._api = api
        self._terms = terms
        self._pods_path = pods_path
        self._readers: ThreadPoolExecutor | None = None
        self._takes: dict[ReplicaKey, Future[Kept]] = {}
        self._taken_at_s: dict[ReplicaKey, float] = {}
        self._missed_since: dict[ReplicaKey, datetime] = {}

    def keeper(self, key: ReplicaKey) -> Keeper:
        """Return the files of one replica."""
        return Keeper(self._terms.folder / str(key))

    def take(self, live: Mapping[ReplicaKey, Json], *, at_s: float) -> None:
        """Have the output of running pods taken by and by, so that their marks are seen."""
        self._taken_at_s = {key: at for key, at in self._taken_at_s.items() if key in live}
        self._takes = {key: take for key, take in self._takes.items() if not take.done()}
        every_s = max(_TAKE_EVERY_S, len(live) / _TAKES_A_SECOND)
        for key in sorted(live.keys() - self._takes.keys()):
            if at_s - self._taken_at_s.get(key, at_s - every_s) < every_s:
                continue
            if self._readers is None:
                self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="kube-output")
            self._taken_at_s[key] = at_s
            self._takes[key] = self._readers.submit(self._take_quietly, key, live[key])

    def drain(self, key: ReplicaKey, pod: Json, now: datetime) -> Kept:
        """Take the last of the output of a pod that has ended, unless it can't be had any more."""
        try:
            self.catch_up(key, pod)
        except EngineError:
            log.warning("kubernetes.output.not_drained", extra={"key": str(key)}, exc_info=True)
            since = self._missed_since.setdefault(key, now)
            if (now - since).total_seconds() < _DRAIN_PATIENCE_S:
                return self.keeper(key).state()
        self._missed_since.pop(key, None)
        return self.keeper(key).change(is_drained=True)

    def catch_up(self, key: ReplicaKey, pod: Json, *, note: str = "") -> Kept:
        """Take what a pod printed since the last time, then add a line of our own, if any."""

        def fetch(since: str | None) -> Iterator[bytes]:
            if not reading.has_begun(pod):
                return
            query = {"container": words.CONTAINER, "timestamps": "true"}
            if since is not None:
                query["sinceTime"] = since
            path = f"{self._pods_path}/{self._terms.pod_name(key)}/log"
            try:
                yield from self._api.read(path, query=query)
            except Refused as refused:  # its container is only just being made
                log.debug("kubernetes.output.none_yet", extra={"why": str(refused)})

        limit = (pod["metadata"].get("annotations") or {}).get(words.LOG_LIMIT)
        return self.keeper(key).catch_up(fetch, limit_mib=int(limit or _DEFAULT_LOG_MIB), note=note)

    def close(self) -> None:
        """End the readers, once each has taken what it is at."""
        if self._readers is not None:
            self._readers.shutdown(wait=True)

    def _take_quietly(self, key: ReplicaKey, pod: Json) -> Kept:
        try:
            return self.catch_up(key, pod)
        except EngineError:
            log.warning("kubernetes.output.not_taken", extra={"key": str(key)}, exc_info=True)
            return self.keeper(key).state()
