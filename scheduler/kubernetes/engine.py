"""The Kubernetes engine: one pod for each start of a replica, bound here to its node and devices.

All there is to know lies in the cluster and in the kept output; a new engine finds both again. A pod
holds a finalizer of ours, so that its end is there to be recorded, whoever deletes it.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from scheduler.engines import logs, records
from scheduler.engines.base import (
    EndCause,
    Endpoint,
    EngineError,
    EnginePhase,
    EngineUnreachable,
    JoinedNode,
    LaunchRefused,
    LaunchSpec,
    LogChunk,
    Observation,
    Orphan,
    ProgressReport,
    ReplicaKey,
    Standing,
)
from scheduler.engines.observations import progress_report
from scheduler.engines.orders import is_storage_key
from scheduler.engines.records import ProgressRecord
from scheduler.kubernetes import manifest, nodes, reading
from scheduler.kubernetes import terms as words
from scheduler.kubernetes.link import Conflict, Json, NotThere, Refused
from scheduler.kubernetes.mirror import Mirror
from scheduler.kubernetes.output import Kept
from scheduler.kubernetes.outputs import Api, Outputs
from scheduler.kubernetes.reading import Stop
from scheduler.kubernetes.terms import Terms

log = logging.getLogger(__name__)

#: How long a pod may wait for its image or its secret.
START_PATIENCE_S = 300
_TRIES = 3
#: A node that was deleted from the cluster: its kubelet ends what ran there.
_DELETED_GRACE_S = 60
#: At once would take the pod's object away before its kubelet has ended it.
_LEAST_GRACE_S = 1


class KubernetesEngine:
    """Runs replicas as pods of one namespace. Safe to use from several processes at once."""

    def __init__(
        self,
        *,
        api: Api,
        terms: Terms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._terms = terms
        self._monotonic = monotonic
        self._changed = threading.Event()
        self._pods_path = f"/api/v1/namespaces/{terms.namespace}/pods"
        self._pods = Mirror(
            api, self._pods_path, selector=terms.selector, on_change=self._changed.set
        )
        self._nodes = Mirror(api, "/api/v1/nodes", on_change=self._changed.set)
        self._known_nodes: dict[str, Json] = {}
        self._away_since_s: dict[str, float] = {}
        self._outputs = Outputs(api, terms=terms, pods_path=self._pods_path)

    # -- the protocol ------------------------------------------------------------------------

    def launch(self, spec: LaunchSpec) -> None:
        """Make the pod, then the secret that belongs to it. Does nothing where this key ran before."""
        if self._outputs.keeper(spec.key).is_forgotten():
            return
        wanted = manifest.make_pod(spec, terms=self._terms, pool_name=self._pool_of(spec.node_name))
        try:
            try:
                pod = self._api.call("POST", self._pods_path, body=wanted)
            except Conflict:  # launched before; its secret may be missing yet
                pod = self._api.call("GET", self._path(spec.key))
            self._pods.put(pod)
            secret = manifest.make_secret(spec, terms=self._terms, pod_uid=pod["metadata"]["uid"])
            if secret is not None:
                self._make_secret(secret)
        except Refused as refused:
            raise LaunchRefused(f"Kubernetes refuses it: {refused}") from refused
        except NotThere as missing:
            raise EngineUnreachable(f"{spec.key} could not be launched: {missing}") from missing

    def observe(self) -> tuple[Observation, ...]:
        """Return all replicas that were launched and not forgotten, by key, of nodes that answer."""
        pods = self._own_pods()
        self._known_nodes = self._nodes.objects()
        now = datetime.now(tz=UTC)
        found = (self._observe_one(key, pod, now) for key, pod in sorted(pods.items()))
        seen = tuple(one for one in found if one is not None)
        live = (one.key for one in seen if one.ended_at is None and one.started_at)
        self._outputs.take({key: pods[key] for key in live}, at_s=self._monotonic())
        return seen

    def standing(self, node_name: str) -> Standing:
        """Return what the last look says of a node.

        A node that is silent may be at work. It is gone where an administrator says so, by deleting it or
        by the taint ``out-of-service``; and after ``gone_after_s``, where that is set.
        """
        node = self._known_nodes.get(node_name)
        if node is not None and nodes.is_ready(node):
            self._away_since_s.pop(node_name, None)
            return Standing.ANSWERS
        away_s = self._monotonic() - self._away_since_s.setdefault(node_name, self._monotonic())
        if node is None:
            return Standing.GONE if away_s > _DELETED_GRACE_S else Standing.SILENT
        is_given_up = 0 < self._terms.gone_after_s < away_s
        return Standing.GONE if is_given_up or nodes.is_out_of_service(node) else Standing.SILENT

    def joined_nodes(self) -> tuple[JoinedNode, ...]:
        """Return the nodes that an administrator gave to a pool and that are ready."""
        ready = (node for node in self._known_nodes.values() if nodes.is_ready(node))
        found = (nodes.joined(node) for node in ready)
        return tuple(sorted((n for n in found if n is not None), key=lambda node: node.name))

    def terminate(self, key: ReplicaKey, *, grace_s: int, reason: str) -> None:
        """Have the pod deleted: SIGTERM, and SIGKILL after the grace period. Returns at once."""
        stop = Stop(cause=EndCause.TERMINATED, reason=reason, at=datetime.now(tz=UTC))
        self._end(key, stop, grace_s=grace_s)

    def forget(self, key: ReplicaKey) -> None:
        """Let an ended pod go, whose end is recorded. Its output stays readable."""
        keeper = self._outputs.keeper(key)
        try:
            pod = self._api.call("GET", self._path(key))
        except NotThere:
            keeper.note_forgotten()
            return
        if not reading.is_over(pod) and self.standing(reading.node_of(pod)) is not Standing.GONE:
            raise EngineError(f"replica {key} has not ended")
        keeper.note_forgotten()
        self._let_go(key, pod)

    def read_log(self, key: ReplicaKey, *, offset: int | None, limit_bytes: int) -> LogChunk:
        """Return output from ``offset`` on, or the last ``limit_bytes`` where it is None."""
        keeper = self._outputs.keeper(key)
        if not keeper.is_forgotten() and not keeper.state()["is_drained"]:
            try:
                self._outputs.catch_up(key, self._api.call("GET", self._path(key)))
            except NotThere:
                log.debug("kubernetes.output.no_pod", extra={"key": str(key)})
        return logs.read_chunk(directory=keeper.folder, offset=offset, limit_bytes=limit_bytes)

    def read_progress(self, key: ReplicaKey, *, after: int) -> tuple[ProgressReport, ...]:
        """Return what a replica that is not forgotten reported on its output after report ``after``."""
        keeper = self._outputs.keeper(key)
        if keeper.is_forgotten():
            return ()
        found: list[ProgressRecord] = records.find_json(keeper.progress_path) or []
        return tuple(progress_report(each) for each in found if each["number"] > after)

    def delete_log(self, key: ReplicaKey) -> None:
        """Drop the output of a replica. That it was launched stays known."""
        self._outputs.keeper(key).drop_output()

    def delete_storage(self, storage_key: str) -> None:
        """Drop the directories of a workload that is no more, where this process sees the shared volume."""
        if self._terms.shared_dir is None or not is_storage_key(storage_key):
            return
        directory = self._terms.shared_dir / "storage" / storage_key
        if directory.exists():
            shutil.rmtree(directory)

    def find_meeting_point(self, node_name: str) -> Endpoint:
        """Return where a gang can meet. Each pod has its own address, so the port is always the same.

        The host is completed at the launch: it is the name of the first member's pod.
        """
        domain = f"{self._terms.subdomain}.{self._terms.namespace}.svc"
        return Endpoint(host=domain, port=words.MEETING_PORT)

    def orphans(self) -> tuple[Orphan, ...]:
        """Return live pods with this engine's marks that are no replica's, such as copies of one."""
        found = []
        for pod in self._pods.objects().values():
            if reading.key_of(pod, terms=self._terms) is None and not reading.is_over(pod):
                found.append(_orphan(pod))
        return tuple(found)

    def end_orphan(self, orphan: Orphan) -> None:
        """Have an orphan deleted, if it still is the pod that was listed."""
        for name, pod in self._pods.objects().items():
            is_foreign = reading.key_of(pod, terms=self._terms) is None
            if is_foreign and _orphan(pod) == orphan:
                self._remove_finalizer(name, pod)
                self._delete(name, pod, grace_s=_LEAST_GRACE_S)

    def wait_for_change(self, *, timeout_s: float) -> bool:
        """Wait until a pod or node may have turned, at most so long; tell whether."""
        has_changed = self._changed.wait(timeout_s)
        self._changed.clear()
        return has_changed

    def close(self) -> None:
        """End the watches and readers of this process; pods are left alone."""
        self._pods.stop()
        self._nodes.stop()
        self._outputs.close()

    # -- looking -----------------------------------------------------------------------------

    def _own_pods(self) -> dict[ReplicaKey, Json]:
        found = {}
        for pod in self._pods.objects().values():
            key = reading.key_of(pod, terms=self._terms)
            if key is not None:
                found[key] = pod
        return found

    def _observe_one(self, key: ReplicaKey, pod: Json, now: datetime) -> Observation | None:
        node_name = reading.node_of(pod)
        standing = self.standing(node_name) if node_name else Standing.ANSWERS
        is_over = reading.is_over(pod)
        if standing is Standing.SILENT and not is_over:
            return None  # what it says may be old
        gone_since = None
        if standing is Standing.GONE and not is_over:
            gone_since = self._last_there(node_name, now)
        kept = self._outputs.keeper(key).state()
        if gone_since is None:
            kept = self._follow(key, pod, kept, now)
        if is_over and not kept["is_drained"]:
            kept = self._outputs.drain(key, pod, now)
        seen = reading.observe(pod, key=key, kept=kept, now=now, gone_since=gone_since)
        return _still_stopping(seen) if is_over and not kept["is_drained"] else seen

    def _last_there(self, node_name: str, now: datetime) -> datetime:
        """Return until when a node was there: until Kubernetes lost it, or until it was missed here."""
        lost_at = nodes.lost_since(self._known_nodes.get(node_name, {}))
        missed_at_s = self._away_since_s.get(node_name, self._monotonic())
        return lost_at or now - timedelta(seconds=self._monotonic() - missed_at_s)

    def _follow(self, key: ReplicaKey, pod: Json, kept: Kept, now: datetime) -> Kept:
        """Note that a service answers for the first time; end what will never start."""
        if reading.is_over(pod) or reading.find_stop(pod):
            return kept
        if kept["ready_at_s"] is None and reading.is_ready(pod):
            kept = self._outputs.keeper(key).change(ready_at_s=now.timestamp())
        hopeless = reading.find_hopeless(pod, now=now, patience_s=START_PATIENCE_S)
        if hopeless:
            stop = Stop(cause=EndCause.LAUNCH_FAILED, reason="", at=now, message=hopeless)
            self._end(key, stop, grace_s=_LEAST_GRACE_S)
        elif reading.is_late_to_serve(pod, kept, now=now):
            given = pod["metadata"]["annotations"][words.START_TIMEOUT]
            message = f"not ready within {given} s"
            stop = Stop(cause=EndCause.START_TIMEOUT, reason="", at=now, message=message)
            self._end(key, stop, grace_s=min(10, pod["spec"]["terminationGracePeriodSeconds"]))
        return kept

    # -- ending ------------------------------------------------------------------------------

    def _end(self, key: ReplicaKey, stop: Stop, *, grace_s: int) -> None:
        """Write down why a pod ends, then have it deleted. The first reason and the earlier end hold."""
        for _ in range(_TRIES):
            try:
                pod = self._api.call("GET", self._path(key))
                if reading.is_over(pod):
                    return
                if reading.find_stop(pod) is None:
                    version = pod["metadata"]["resourceVersion"]
                    meta = {"resourceVersion": version, "annotations": {words.STOP: stop.write()}}
                    pod = self._api.call("PATCH", self._path(key), body={"metadata": meta})
                    self._pods.put(pod)
                    self._note_sigterm(key, pod, stop)
                self._delete(self._terms.pod_name(key), pod, grace_s=max(_LEAST_GRACE_S, grace_s))
                return
            except NotThere:
                return
            except Conflict:  # it changed meanwhile: look again
                continue
        raise EngineUnreachable(f"the pod of {key} keeps changing")

    def _note_sigterm(self, key: ReplicaKey, pod: Json, stop: Stop) -> None:
        why = stop.reason or stop.cause.value
        try:
            self._outputs.catch_up(key, pod, note=f"--- SIGTERM, {why} ---")
        except EngineError:  # a line in the output is not worth a longer wait
            log.warning("kubernetes.output.not_taken", extra={"key": str(key)}, exc_info=True)

    def _delete(self, name: str, pod: Json, *, grace_s: int) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_s,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        }
        try:
            left = self._api.call("DELETE", f"{self._pods_path}/{name}", body=body)
        except NotThere:
            self._pods.drop(name, pod["metadata"]["uid"])
            return
        if left.get("kind") == "Pod":
            self._pods.put(left)

    def _let_go(self, key: ReplicaKey, pod: Json) -> None:
        """Remove what holds an ended pod, and the pod."""
        name, uid = self._terms.pod_name(key), pod["metadata"]["uid"]
        try:
            self._remove_finalizer(name, pod)
            self._delete(name, pod, grace_s=0)
        except NotThere:
            log.debug("kubernetes.pod.was_gone", extra={"pod": name})
        self._pods.drop(name, uid)

    def _remove_finalizer(self, name: str, pod: Json) -> None:
        held = pod["metadata"].get("finalizers") or []
        if words.FINALIZER not in held:
            return
        meta = {
            "uid": pod["metadata"]["uid"],
            "finalizers": [each for each in held if each != words.FINALIZER],
        }
        self._api.call("PATCH", f"{self._pods_path}/{name}", body={"metadata": meta})

    # -- names -------------------------------------------------------------------------------

    def _path(self, key: ReplicaKey) -> str:
        return f"{self._pods_path}/{self._terms.pod_name(key)}"

    def _pool_of(self, node_name: str) -> str:
        node = self._nodes.objects().get(node_name)
        if node is None:
            raise EngineUnreachable(f"node {node_name} is not there now")
        return str((node["metadata"].get("labels") or {}).get(words.POOL, ""))

    def _make_secret(self, secret: Json) -> None:
        path = f"/api/v1/namespaces/{self._terms.namespace}/secrets"
        try:
            self._api.call("POST", path, body=secret)
        except Conflict:
            log.debug("kubernetes.secret.is_there", extra={"secret": secret["metadata"]["name"]})


def _still_stopping(seen: Observation) -> Observation:
    """Return what is told of a pod that has ended and whose output was not taken to its end yet."""
    return replace(
        seen, phase=EnginePhase.STOPPING, ended_at=None, exit_code=None, signal=None, ready=False
    )


def _orphan(pod: Json) -> Orphan:
    try:
        key = ReplicaKey.parse(pod["metadata"]["labels"].get(words.REPLICA, ""))
    except ValueError:
        key = ReplicaKey(replica_id=0, attempt=0)
    started_at = reading.at(pod["metadata"]["creationTimestamp"])
    assert started_at is not None
    return Orphan(key=key, pid=0, started_at=started_at, node_name=reading.node_of(pod))
