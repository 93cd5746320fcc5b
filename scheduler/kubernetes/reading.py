"""What a pod's object tells, as an Observation; and what of it says that the pod can't start."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from scheduler.engines.base import (
    EndCause,
    Endpoint,
    EnginePhase,
    Observation,
    ReplicaKey,
)
from scheduler.engines.observations import mark_of, utc
from scheduler.kubernetes import terms as words
from scheduler.kubernetes.link import Json
from scheduler.kubernetes.output import Kept

#: How a container's first process could not be executed.
_NOT_STARTED = frozenset(("StartError", "ContainerCannotRun"))
#: A wait that never ends by itself.
_HOPELESS = frozenset(("InvalidImageName", "ErrImageNeverPull"))
#: A wait that ends once something is there that comes later: bounded by patience.
_MAY_PASS = frozenset(
    (
        "ErrImagePull",
        "ImagePullBackOff",
        "RegistryUnavailable",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    )
)
#: Reasons of a whole pod or container for which the work is not to blame: it begins anew elsewhere.
_NOT_ITS_FAULT = frozenset(
    (
        "Evicted",
        "NodeLost",
        "Shutdown",
        "Terminated",
        "NodeShutdown",
        "Preempting",
        "UnexpectedAdmissionError",
        "ContainerStatusUnknown",
    )
)
_SIGNALS_FROM, _LAST_SIGNAL = 128, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """How a pod was asked to end."""

    cause: EndCause
    reason: str
    at: datetime
    message: str = ""

    def write(self) -> str:
        """Return it as the pod's annotation."""
        told = {"cause": self.cause, "reason": self.reason, "message": self.message}
        return json.dumps({**told, "at": self.at.isoformat()})


def find_stop(pod: Json) -> Stop | None:
    """Return how we asked a pod to end, or None."""
    text = (pod["metadata"].get("annotations") or {}).get(words.STOP)
    if not text:
        return None
    told = json.loads(text)
    return Stop(
        cause=EndCause(told["cause"]),
        reason=told["reason"],
        message=told["message"],
        at=datetime.fromisoformat(told["at"]),
    )


def key_of(pod: Json, *, terms: words.Terms) -> ReplicaKey | None:
    """Return whose pod it is; None for one that only looks like ours, such as a copy."""
    try:
        key = ReplicaKey.parse(pod["metadata"]["labels"][words.REPLICA])
    except (KeyError, ValueError):
        return None
    return key if pod["metadata"]["name"] == terms.pod_name(key) else None


def is_over(pod: Json) -> bool:
    """Test whether no process of a pod is left: it ended, or its kubelet let go of it.

    Whoever deletes by force sets the grace to 0 too, while the process still runs.
    """
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return True
    is_let_go = pod["metadata"].get("deletionGracePeriodSeconds") == 0
    return is_let_go and "running" not in _state(pod)


def has_begun(pod: Json) -> bool:
    """Test whether its first process was started, so that there may be output."""
    state = _state(pod)
    return "running" in state or "terminated" in state


def node_of(pod: Json) -> str:
    """Return the node that it runs on, or is bound to."""
    return str(pod["spec"].get("nodeName", ""))


def find_hopeless(pod: Json, *, now: datetime, patience_s: int) -> str:
    """Return why a pod will not start, where that is certain or has lasted too long; else nothing."""
    waiting = _state(pod).get("waiting", {})
    reason = str(waiting.get("reason", ""))
    since = at(pod["metadata"].get("creationTimestamp")) or now
    is_late = (now - since).total_seconds() > patience_s
    if reason in _HOPELESS or (reason in _MAY_PASS and is_late):
        return f"{reason}: {waiting.get('message', '')}".strip(": ")
    return ""


def is_late_to_serve(pod: Json, kept: Kept, *, now: datetime) -> bool:
    """Test whether a service had its time and never answered."""
    given = (pod["metadata"].get("annotations") or {}).get(words.START_TIMEOUT)
    started_at = at(_state(pod).get("running", {}).get("startedAt"))
    if not given or started_at is None or kept["ready_at_s"] is not None or is_ready(pod):
        return False
    return (now - started_at).total_seconds() > int(given)


def is_ready(pod: Json) -> bool:
    """Test whether it answers, as its kubelet says."""
    found = pod.get("status", {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in found)


def observe(
    pod: Json, *, key: ReplicaKey, kept: Kept, now: datetime, gone_since: datetime | None
) -> Observation:
    """Return what is so of a pod. ``gone_since``: its node is gone, and was heard of last then."""
    stop = find_stop(pod)
    state = _state(pod)
    ran = state.get("running") or state.get("terminated") or {}
    started_at = at(ran.get("startedAt"))
    is_service = words.START_TIMEOUT in (pod["metadata"].get("annotations") or {})
    ready_at = started_at if not is_service else _maybe(kept["ready_at_s"])
    phase, cause, message = _phase(pod, stop, ready_at, gone_since)
    is_live = phase not in (EnginePhase.EXITED, EnginePhase.LOST)
    code, signal = (None, None) if cause is EndCause.LAUNCH_FAILED else _exit(state)
    ended_at = None if is_live else _ended_at(pod, stop, started_at, gone_since or now)
    address = pod.get("status", {}).get("podIP", "")
    return Observation(
        key=key,
        workload_id=int(pod["metadata"]["labels"].get(words.WORKLOAD, "0")),
        phase=phase,
        last_seen_at=ended_at or now,
        node_name=node_of(pod),
        ready=phase is EnginePhase.RUNNING and (not is_service or is_ready(pod)),
        started_at=started_at,
        ready_at=ready_at,
        term_sent_at=stop.at if stop else _deleted_at(pod),
        ended_at=ended_at,
        cause=cause,
        stop_reason=stop.reason if stop else "",
        exit_code=code,
        signal=signal,
        message=message,
        endpoint=Endpoint(host=address, port=words.SERVICE_PORT)
        if is_service and address
        else None,
        checkpoint=mark_of(kept["checkpoint"]),
        checkpoint_count=kept["checkpoint_count"],
        checkpoint_error=kept["checkpoint_error"],
        resumed=mark_of(kept["resumed"]),
    )


def _phase(
    pod: Json, stop: Stop | None, ready_at: datetime | None, gone_since: datetime | None
) -> tuple[EnginePhase, EndCause | None, str]:
    """Return the phase, why it ends or has ended, and what to say of it."""
    if is_over(pod):
        return _end(pod, stop)
    if gone_since is not None:
        return EnginePhase.LOST, EndCause.LOST, "its node is gone"
    if pod["metadata"].get("deletionTimestamp") or stop:
        cause = stop.cause if stop else EndCause.LOST
        return EnginePhase.STOPPING, cause, stop.message if stop else ""
    return (EnginePhase.RUNNING if ready_at else EnginePhase.STARTING), None, ""


def _end(pod: Json, stop: Stop | None) -> tuple[EnginePhase, EndCause, str]:
    ended = _state(pod).get("terminated")
    told = str(pod.get("status", {}).get("message", ""))
    if ended and ended.get("reason") in _NOT_STARTED:
        return EnginePhase.EXITED, EndCause.LAUNCH_FAILED, str(ended.get("message", ""))
    if stop is not None:
        phase = EnginePhase.EXITED if ended or stop.message else EnginePhase.LOST
        return phase, stop.cause, stop.message
    reason = str(pod.get("status", {}).get("reason", ""))
    if ended is None or {reason, ended.get("reason")} & _NOT_ITS_FAULT:
        return EnginePhase.LOST, EndCause.LOST, f"{reason}: {told}".strip(": ")
    if _was_ended_from_outside(pod, ended):
        return EnginePhase.LOST, EndCause.LOST, "its pod was deleted or evicted from outside"
    message = "killed: its node had no memory left" if ended.get("reason") == "OOMKilled" else ""
    return EnginePhase.EXITED, EndCause.EXITED, message


def _was_ended_from_outside(pod: Json, ended: Json) -> bool:
    """Test whether somebody else had the pod deleted before its work was over."""
    conditions = pod.get("status", {}).get("conditions") or ()
    if any(c.get("type") == "DisruptionTarget" and c.get("status") == "True" for c in conditions):
        return True
    deleted_at, finished_at = _deleted_at(pod), at(ended.get("finishedAt"))
    return deleted_at is not None and (finished_at is None or finished_at >= deleted_at)


def _ended_at(
    pod: Json, stop: Stop | None, started_at: datetime | None, otherwise: datetime
) -> datetime:
    """Return when it was over. The API knows whole seconds: an end lies after what led to it."""
    finished_at = at(_state(pod).get("terminated", {}).get("finishedAt")) or otherwise
    before = [one for one in (started_at, stop.at if stop else None) if one is not None]
    return max([finished_at, *before])


def _exit(state: Json) -> tuple[int | None, int | None]:
    """Return exit code or signal: a runtime gives 128 and the signal's number for the latter."""
    ended = state.get("terminated")
    if not ended:
        return None, None
    code, signal = int(ended.get("exitCode", 0)), int(ended.get("signal") or 0)
    if signal or _SIGNALS_FROM < code <= _SIGNALS_FROM + _LAST_SIGNAL:
        return None, signal or code - _SIGNALS_FROM
    return code, None


def _state(pod: Json) -> Json:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    own = (s for s in statuses if s.get("name") == words.CONTAINER)
    status: Json = next(own, {})
    found: Json = status.get("state") or {}
    return found


def _deleted_at(pod: Json) -> datetime | None:
    """Return when somebody had the pod deleted: the stamp is when its grace is over."""
    over_at = at(pod["metadata"].get("deletionTimestamp"))
    if over_at is None:
        return None
    return utc(over_at.timestamp() - int(pod["metadata"].get("deletionGracePeriodSeconds") or 0))


def at(text: str | None) -> datetime | None:
    """Return an instant as the API writes it."""
    return None if not text else datetime.fromisoformat(text).astimezone(UTC)


def _maybe(seconds: float | None) -> datetime | None:
    return None if seconds is None else utc(seconds)
