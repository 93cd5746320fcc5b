"""What a replica says of an answer's tokens, read as the answer passes.

A stream tells its usage only where it is asked to. The gateway asks in the place of a caller who did
not, and takes the event that tells it out again: the caller gets what it asked for.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
#: The last part of an answer in which its usage is looked for, and when what is older is dropped.
TAIL_BYTES = 16 * 1024
_ASK = b'{"stream_options":{"include_usage":true},'
#: An event ends with an empty line, by whichever line ends a server writes.
_ENDS = (b"\n\n", b"\n\r\n")
_BOUNDARY = re.compile(rb"(\n\r?\n)")
#: An event that is not whole by then is passed on as it is.
MOST_HELD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of one request."""

    taken: int = 0
    made: int = 0


class TokenReader:
    """Reads an answer as it passes and finds its usage, which stands near its end.

    A stream whose replica tells none counts each event as one token.
    """

    def __init__(self, *, is_stream: bool = False) -> None:
        self._is_stream = is_stream
        self._tail = bytearray()
        self._events = 0
        self._noted: dict[str, object] | None = None

    def note(self, usage: dict[str, object]) -> None:
        """Take in the usage as somebody else has read it from the same answer."""
        self._noted = usage

    def feed(self, data: bytes) -> None:
        """Take in a part."""
        if self._is_stream:
            self._events += data.count(b"data:")
        self._tail += data
        if len(self._tail) > 4 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def tokens(self) -> Tokens:
        """Return what the answer said, or for a stream without usage how many events it had."""
        if self._noted is not None:
            return _tokens_of(self._noted)
        for match in reversed(list(_USAGE.finditer(self._tail))):
            told = _object_at(bytes(self._tail), match.end() - 1)
            if told is not None:
                return _tokens_of(told)
        # The last event of a stream is its end mark.
        return Tokens(made=max(0, self._events - 1))


def ask_for_usage(body: bytes) -> bytes:
    """Return the body of a stream's request, a JSON object with a model, that asks for its usage."""
    return _ASK + body[body.index(b"{") + 1 :]


class UsageEventFilter:
    """Takes the event that tells a stream's usage, and nothing else, out of its bytes."""

    def __init__(self) -> None:
        self._held = b""
        #: The usage that was taken out, once it has come.
        self.usage: dict[str, object] | None = None

    def feed(self, data: bytes) -> bytes:
        """Return what may be passed on now: whole events."""
        if self._held:
            data, self._held = self._held + data, b""
        if not data.endswith(_ENDS):
            cut = max(data.rfind(end) + len(end) if end in data else 0 for end in _ENDS)
            if len(data) - cut <= MOST_HELD_BYTES:
                data, self._held = data[:cut], data[cut:]
        if _USAGE.search(data) is None:
            return data
        parts = _BOUNDARY.split(data)
        events = zip(parts[::2], [*parts[1::2], b""], strict=True)
        return b"".join(
            event + end for event, end in events if not (end and self._takes_out(event))
        )

    def _takes_out(self, event: bytes) -> bool:
        """Test whether an event is the one that was asked for: usage, and a list of no choices."""
        if _NO_CHOICES.search(event) is None:
            return False  # nearly all are: they need not be read
        try:
            content = json.loads(event.removeprefix(b"data:"))
        except ValueError:
            return False
        if not isinstance(content, dict) or content.get("choices") != []:
            return False
        usage = content.get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        return "usage" in content

    def rest(self) -> bytes:
        """Return what is left at the end of the stream."""
        rest, self._held = self._held, b""
        return rest


def _tokens_of(told: dict[str, object]) -> Tokens:
    return Tokens(taken=_count(told, "prompt_tokens"), made=_count(told, "completion_tokens"))


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
