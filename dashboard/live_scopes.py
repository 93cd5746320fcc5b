"""One scope's stream: its last state, its numbered deltas, and what a client that comes back needs.

A scope is what a reader may see, in a language, a time zone and a pool. The projection is made once
for each scope and handed to all its clients.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass, field

from dashboard.live_wire import Json, as_json, difference, only
from scheduler.queries.visibility import Visibility

RING_SIZE = 1000
#: Utilization is told in batches, not with each sample.
UTILIZATION_EVERY_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What makes two readers' pages the same."""

    visible: Visibility
    language: str
    zone: str
    pool_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a user may see, and what where it asks for the scratch pool of a verification."""

    visible: Visibility
    scratch: Visibility | None

    def seen(self, *, scratch: bool) -> Visibility:
        """Return what is shown; who may not see scratch pools gets what it sees anyway."""
        return self.scratch if scratch and self.scratch is not None else self.visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A scope's state as it was read."""

    parts: Json
    at_ms: int
    cycle: int
    last_cycle_ms: int | None


@dataclass(slots=True, kw_only=True)
class Message:
    """A snapshot or a delta; encoded once for each set of topics."""

    head: Json
    parts: Json
    _encoded: dict[frozenset[str], str] = field(default_factory=dict)

    @property
    def seq(self) -> int:
        """The number of the state after this message."""
        seq = self.head["seq"]
        assert isinstance(seq, int)
        return seq

    def encoded(self, topics: frozenset[str]) -> str:
        """Return the message as JSON with the parts of ``topics``."""
        text = self._encoded.get(topics)
        if text is None:
            text = as_json({**self.head, **only(self.parts, topics)})
            self._encoded[topics] = text
        return text


class ScopeStream:
    """The states of one scope, one after the other."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        #: Tells this stream from that of another process: numbers are comparable only within one.
        self.name = secrets.token_hex(4)
        self.seq = 0
        self.loaded: Loaded | None = None
        self._ring: deque[Message] = deque(maxlen=RING_SIZE)
        self._snapshot: Message | None = None
        self._utilization_at_ms = 0

    def advance(self, loaded: Loaded) -> Message | None:
        """Take the next state; return the delta, or None where nothing differs."""
        if self.loaded is None:
            self.loaded = loaded
            self.seq = 1
            self._utilization_at_ms = loaded.at_ms
            return None
        if loaded.at_ms - self._utilization_at_ms < UTILIZATION_EVERY_MS:
            loaded = _with_old_utilization(loaded, self.loaded)
        else:
            self._utilization_at_ms = loaded.at_ms
        changed = difference(before=self.loaded.parts, after=loaded.parts)
        self.loaded = loaded
        if not changed:
            return None
        self.seq += 1
        self._snapshot = None
        message = Message(head=self._head("d", loaded), parts=changed)
        self._ring.append(message)
        return message

    def snapshot(self) -> Message:
        """Return the whole state."""
        assert self.loaded is not None
        if self._snapshot is None:
            self._snapshot = Message(head=self._head("snap", self.loaded), parts=self.loaded.parts)
        return self._snapshot

    def since(self, *, seq: int, name: str) -> list[Message]:
        """Return what a client at ``seq`` has missed, or the snapshot where that is not kept."""
        if name != self.name or seq > self.seq or seq < 1:
            return [self.snapshot()]
        missed = [message for message in self._ring if message.seq > seq]
        if len(missed) != self.seq - seq:
            return [self.snapshot()]
        return missed

    def _head(self, kind: str, loaded: Loaded) -> Json:
        return {
            "t": kind,
            "stream": self.name,
            "seq": self.seq,
            "ts": loaded.at_ms,
            "cycle": loaded.cycle,
            "last": loaded.last_cycle_ms,
        }


def _with_old_utilization(loaded: Loaded, before: Loaded) -> Loaded:
    old_loads, new_loads = before.parts["ut"], loaded.parts["ut"]
    old_kpi, new_kpi = before.parts["kpi"], loaded.parts["kpi"]
    assert isinstance(old_loads, dict)
    assert isinstance(new_loads, dict)
    assert isinstance(old_kpi, dict)
    assert isinstance(new_kpi, dict)
    loads = {key: old_loads.get(key, value) for key, value in new_loads.items()}
    kpi = {**new_kpi, "util": old_kpi["util"]}
    return Loaded(
        parts={**loaded.parts, "ut": loads, "kpi": kpi},
        at_ms=loaded.at_ms,
        cycle=loaded.cycle,
        last_cycle_ms=loaded.last_cycle_ms,
    )
