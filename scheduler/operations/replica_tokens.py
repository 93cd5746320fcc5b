"""The secret by which a running replica shows who it is. It holds for one attempt, and ends with it."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.crypto import constant_time_compare, salted_hmac

from scheduler import models
from scheduler.core.vocabulary import ReplicaPhase
from scheduler.engines.base import ReplicaKey

_PREFIX = "tgr_"
_SALT = "tidegate.replica"


class Speaker(NamedTuple):
    """The replica that a token speaks for."""

    replica_id: int
    workload_id: int


def token_of(key: ReplicaKey) -> str:
    """Return a replica's token: nothing of it is kept, and a launch that is repeated gives the same."""
    return f"{_PREFIX}{key}_{_sign(key)}"


def find_replica(token: str) -> Speaker | None:
    """Return the replica that a token speaks for, or None: it is not one, or the attempt has ended."""
    written, _, signature = token.removeprefix(_PREFIX).partition("_")
    try:
        key = ReplicaKey.parse(written)
    except ValueError:
        return None
    if not token.startswith(_PREFIX) or not constant_time_compare(signature, _sign(key)):
        return None
    rows = models.Replica.objects.exclude(phase=ReplicaPhase.ENDED)
    found = rows.filter(pk=key.replica_id, attempt=key.attempt).values_list("pk", "workload_id")
    return next((Speaker(*row) for row in found), None)


def workspace_secret_of(key: ReplicaKey) -> str:
    """Return what a workspace's process asks of whoever comes to its port: the proxy alone knows it."""
    return salted_hmac("tidegate.workspace", str(key), algorithm="sha256").hexdigest()


def _sign(key: ReplicaKey) -> str:
    return salted_hmac(_SALT, str(key), algorithm="sha256").hexdigest()
