"""What requests used: tokens as the replica counted them, seconds and cost, handed on in batches."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from scheduler.operations.gateway_keys import COUNTS, Use

_USAGE = re.compile(rb'"usage"\s*:\s*\{')
#: The last part of an answer in which its usage is looked for, and when what is older is dropped.
TAIL_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of one request."""

    taken: int = 0
    made: int = 0


class TokenReader:
    """Reads an answer as it passes and finds its usage, which stands near its end.

    A stream whose caller did not ask for usage has none: then each event counts as one token.
    """

    def __init__(self, *, is_stream: bool = False) -> None:
        self._is_stream = is_stream
        self._tail = bytearray()
        self._events = 0

    def feed(self, data: bytes) -> None:
        """Take in a part."""
        if self._is_stream:
            self._events += data.count(b"data:")
        self._tail += data
        if len(self._tail) > 4 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def tokens(self) -> Tokens:
        """Return what the answer said, or for a stream without usage how many events it had."""
        for match in reversed(list(_USAGE.finditer(self._tail))):
            told = _object_at(bytes(self._tail), match.end() - 1)
            if told is not None:
                return Tokens(
                    taken=_count(told, "prompt_tokens"), made=_count(told, "completion_tokens")
                )
        # The last event of a stream is its end mark.
        return Tokens(made=max(0, self._events - 1))


class UsageBook:
    """Counts by key, project, model and hour, until they are written."""

    def __init__(self) -> None:
        self._uses: dict[tuple[int, int, str, datetime], Use] = {}

    def add(self, use: Use) -> None:
        """Add one use."""
        name = (use.key_id, use.project_id, use.model, use.hour_at)
        known = self._uses.get(name)
        self._uses[name] = use if known is None else _sum(known, use)

    def take(self) -> list[Use]:
        """Return all that was added since, once."""
        taken = list(self._uses.values())
        self._uses = {}
        return taken


def hour_now() -> datetime:
    """Return the beginning of this hour."""
    return datetime.now(tz=UTC).replace(minute=0, second=0, microsecond=0)


def _sum(one: Use, other: Use) -> Use:
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in COUNTS})


def _object_at(data: bytes, start: int) -> dict[str, object] | None:
    """Return the JSON object that begins at ``start``, if it is whole."""
    try:
        found, _ = json.JSONDecoder().raw_decode(data[start:].decode("utf-8", "replace"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _count(told: dict[str, object], name: str) -> int:
    value = told.get(name)
    return value if isinstance(value, int) and value > 0 else 0
