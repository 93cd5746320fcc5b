"""A node of a test: it speaks to an API server as a kubelet does, and runs pods as processes here."""

from __future__ import annotations

import base64
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

Json = dict[str, Any]
LOOK_S = 0.03
_addresses = itertools.count(1)


@dataclass
class Line:
    """One line of output and when it began."""

    at: str
    text: bytes
    is_whole: bool


@dataclass
class Running:
    """A pod's one process."""

    process: subprocess.Popen[bytes]
    address: str
    started_at: str
    lines: list[Line] = field(default_factory=list)
    reader: threading.Thread | None = None
    term_at_s: float | None = None
    is_ready: bool = False
    is_told: bool = False


class Kubelet:
    """The kubelet of one node. ``cut_off``: it hears and tells nothing, while its work goes on."""

    def __init__(
        self, http: httpx.Client, name: str, folder: Path, *, labels: Json, status: Json
    ) -> None:
        self.name = name
        self.cut_off = False
        self.running: dict[str, Running] = {}
        self._folder = folder
        self._http = http
        self._over = threading.Event()
        self._lock = threading.Lock()
        node = {"metadata": {"name": name, "labels": labels}, "spec": {}}
        self._http.post("/nodes", json=node).raise_for_status()
        # A server gives a new node the taint not-ready; the node controller takes it off.
        self._http.patch(f"/nodes/{name}", **_merge({"spec": {"taints": None}})).raise_for_status()
        self.say_ready("True", **status)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def say_ready(self, status: str, **more: Json) -> None:
        """Have the node's condition be True, False or Unknown, and tell more of its status."""
        condition = {
            "type": "Ready",
            "status": status,
            "lastHeartbeatTime": _stamp(-240),  # kubelets write it every five minutes
            "lastTransitionTime": _stamp(),
        }
        told: Json = {"conditions": [condition], **more}
        answer = self._http.patch(f"/nodes/{self.name}/status", **_merge({"status": told}))
        answer.raise_for_status()

    def read_log(self, uid: str, _container: str, since: str | None) -> bytes:
        """Return a pod's output with times, from a whole second on, as a kubelet does."""
        own = self.running.get(uid)
        least = None if since is None else datetime.fromisoformat(since)
        with self._lock:
            lines = list(own.lines) if own else []
        found = b""
        for line in lines:
            at = datetime.fromisoformat(line.at[:19] + "+00:00")
            if least is None or at >= least:
                found += line.at.encode() + b" " + line.text + (b"\n" if line.is_whole else b"")
        return found

    def stop(self) -> None:
        """End it and all that it runs."""
        self._over.set()
        self._thread.join()
        for own in self.running.values():
            if own.process.poll() is None:
                os.killpg(own.process.pid, signal.SIGKILL)
                own.process.wait()
            if own.reader is not None:
                own.reader.join()
        self._http.close()

    # -- the loop ----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            if self.cut_off:
                continue
            try:
                query = {"fieldSelector": f"spec.nodeName={self.name}"}
                pods = self._http.get("/pods", params=query).json().get("items", ())
                for pod in pods:
                    self._look_after(pod)
            except httpx.HTTPError:
                continue  # the server is away: work goes on

    def _look_after(self, pod: Json) -> None:
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        own = self.running.get(uid)
        if own is None:
            if pod["status"]["phase"] in ("Failed", "Succeeded"):
                return
            if meta.get("deletionTimestamp"):
                self._tell(pod, {"phase": "Failed"})
                self._let_go(pod)
                return
            self._start(pod)
            return
        if meta.get("deletionTimestamp"):
            self._end(own, grace_s=meta["deletionGracePeriodSeconds"])
        if own.process.poll() is None:
            self._probe(pod, own)
            return
        if not own.is_told:
            self._tell_end(pod, own)
            own.is_told = True
        if meta.get("deletionTimestamp") and meta["deletionGracePeriodSeconds"]:
            self._let_go(pod)

    def _start(self, pod: Json) -> None:
        (container,) = pod["spec"]["containers"]
        address = f"127.{60 + os.getpid() % 150}.{next(_addresses) % 250}.{1 + os.getpid() % 250}"
        env = self._environment(pod, container, address)
        if env is None:
            reason = {"reason": "CreateContainerConfigError", "message": "secret not found"}
            self._tell(pod, {"phase": "Pending", **_status({"waiting": reason})})
            return
        command = [_expanded(word, env) for word in container["command"]]
        cwd = Path(self._local(container["workingDir"]))
        cwd.mkdir(parents=True, exist_ok=True)
        started_at = _stamp()
        try:
            process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            ended = {
                "reason": "StartError",
                "exitCode": 128,
                "message": f'exec: "{error.filename}": executable file not found in $PATH',
                "startedAt": started_at,
                "finishedAt": started_at,
            }
            self._tell(pod, {"phase": "Failed", **_status({"terminated": ended})})
            return
        own = Running(process=process, address=address, started_at=started_at)
        own.reader = threading.Thread(target=self._read, args=(own,), daemon=True)
        own.reader.start()
        self.running[pod["metadata"]["uid"]] = own
        own.is_ready = "readinessProbe" not in container
        self._tell_running(pod, own)

    def _environment(self, pod: Json, container: Json, address: str) -> dict[str, str] | None:
        own_bin = os.path.dirname(sys.executable)
        env = {"PATH": f"{own_bin}:/usr/bin:/bin", "LANG": "C.UTF-8"}
        secrets: dict[str, Json] = {}
        for each in container["env"]:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                env[each["name"]] = address
            elif "secretKeyRef" in source:
                name, key = source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]
                if name not in secrets:
                    answer = self._http.get(
                        f"/namespaces/{pod['metadata']['namespace']}/secrets/{name}"
                    )
                    if answer.status_code == 404:
                        return None
                    secrets[name] = answer.json()["data"]
                env[each["name"]] = base64.b64decode(secrets[name][key]).decode()
            else:
                env[each["name"]] = self._local(_expanded(each["value"], env))
        return env

    def _local(self, path: str) -> str:
        return path.replace("/workload", str(self._folder / "workload"), 1)

    def _read(self, own: Running) -> None:
        assert own.process.stdout is not None
        while data := os.read(own.process.stdout.fileno(), 65536):
            with self._lock:
                for piece in data.splitlines(keepends=True):
                    whole = piece.endswith(b"\n")
                    if own.lines and not own.lines[-1].is_whole:
                        own.lines[-1].text += piece.rstrip(b"\n")
                        own.lines[-1].is_whole = whole
                    else:
                        own.lines.append(
                            Line(at=_nanos(), text=piece.rstrip(b"\n"), is_whole=whole)
                        )
        own.process.stdout.close()

    def _end(self, own: Running, *, grace_s: int) -> None:
        if own.process.poll() is not None:
            return
        if own.term_at_s is None:
            own.term_at_s = time.monotonic()
            own.process.send_signal(signal.SIGTERM)
        if time.monotonic() >= own.term_at_s + grace_s:
            os.killpg(own.process.pid, signal.SIGKILL)

    def _probe(self, pod: Json, own: Running) -> None:
        probe = pod["spec"]["containers"][0].get("readinessProbe")
        if probe is None:
            return
        asked = probe["httpGet"]
        try:
            answer = httpx.get(
                f"http://{own.address}:{asked['port']}{asked['path']}", timeout=1, trust_env=False
            )
            is_ready = answer.status_code < 400
        except httpx.HTTPError:
            is_ready = False
        if is_ready != own.is_ready:
            own.is_ready = is_ready
            self._tell_running(pod, own)

    # -- what it tells -----------------------------------------------------------------------

    def _tell_running(self, pod: Json, own: Running) -> None:
        status = _status({"running": {"startedAt": own.started_at}})
        ready = {"type": "Ready", "status": str(own.is_ready)}
        self._tell(pod, {"phase": "Running", "podIP": own.address, "conditions": [ready], **status})

    def _tell_end(self, pod: Json, own: Running) -> None:
        assert own.reader is not None
        own.reader.join(5)
        code = own.process.returncode
        ended = {
            "exitCode": code if code >= 0 else 128 - code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": own.started_at,
            "finishedAt": _stamp(),
        }
        phase = "Succeeded" if code == 0 else "Failed"
        not_ready = {"type": "Ready", "status": "False"}
        status = _status({"terminated": ended})
        self._tell(pod, {"phase": phase, "conditions": [not_ready], **status})

    def _tell(self, pod: Json, status: Json) -> None:
        self._http.patch(f"{_path(pod)}/status", **_merge({"status": status}))

    def _let_go(self, pod: Json) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._http.request("DELETE", _path(pod), json=body)


def _path(pod: Json) -> str:
    return f"/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _merge(body: Json) -> Json:
    return {"json": body, "headers": {"Content-Type": "application/merge-patch+json"}}


def _status(state: Json) -> Json:
    return {"containerStatuses": [{"name": "work", "state": state}]}


def _expanded(text: str, env: dict[str, str]) -> str:
    """Expand ``$(NAME)`` as Kubernetes does; ``$$(`` is a plain ``$(``."""
    text = text.replace("$$(", "\0")
    for name, value in env.items():
        text = text.replace(f"$({name})", value)
    return text.replace("\0", "$(")


def _stamp(later_s: float = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=later_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _nanos() -> str:
    now = time.time_ns()
    whole = datetime.fromtimestamp(now // 10**9, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{now % 10**9:09d}Z"
