"""Finds the model that a JSON body names without holding the body: only its top level is read."""

from __future__ import annotations

import json
import re

_OUTSIDE = re.compile(rb'["{}\[\],:]')
_INSIDE = re.compile(rb'["\\]')
#: Longer keys and names are not what is looked for.
_MOST_BYTES = 512


class ModelScanner:
    """Reads a JSON object part by part; ``found`` is the string at its top-level key "model"."""

    def __init__(self) -> None:
        self.found: str | None = None
        self.failed = False
        self._depth = 0
        self._inside = False
        self._escaped = False
        self._text = bytearray()
        self._key: str | None = None
        self._is_value = False

    def feed(self, data: bytes) -> None:
        """Read on."""
        at = 0
        while at < len(data) and self.found is None and not self.failed:
            at = self._read_string(data, at) if self._inside else self._read_mark(data, at)

    def _read_mark(self, data: bytes, at: int) -> int:
        match = _OUTSIDE.search(data, at)
        if match is None:
            return len(data)
        mark = match.group()
        if mark == b'"':
            self._inside = True
            self._text.clear()
        elif mark in b"{[":
            self.failed = self._depth == 0 and mark == b"["
            self._depth += 1
        elif mark in b"}]":
            self._depth -= 1
        elif self._depth == 1:
            self._is_value = mark == b":"
        return match.end()

    def _read_string(self, data: bytes, at: int) -> int:
        if self._escaped:
            self._escaped = False
            self._keep(data[at : at + 1])
            return at + 1
        match = _INSIDE.search(data, at)
        end = len(data) if match is None else match.start()
        self._keep(data[at:end])
        if match is None:
            return end
        if match.group() == b"\\":
            self._escaped = True
            self._keep(b"\\")
        else:
            self._inside = False
            self._end_string()
        return match.end()

    def _keep(self, data: bytes) -> None:
        if self._depth == 1 and len(self._text) <= _MOST_BYTES:
            self._text += data[: _MOST_BYTES + 1]

    def _end_string(self) -> None:
        if self._depth != 1 or len(self._text) > _MOST_BYTES:
            self._key = None
            return
        try:
            text = json.loads(b'"' + bytes(self._text) + b'"')
        except ValueError:
            self.failed = True
            return
        if not self._is_value:
            self._key = text
        elif self._key == "model":
            self.found = text
