"""Texts as vectors: hashed words and their letter trigrams, of length one. Alike texts lie near."""

from __future__ import annotations

import math
import re
import zlib

DIMENSIONS = 256
_WORD = re.compile(r"\w+")


def embed(text: str) -> list[float]:
    """Return a text's vector; the same for the same text, on every machine."""
    vector = [0.0] * DIMENSIONS
    words = _WORD.findall(text.lower())
    for word in words:
        _add(vector, word, weight=1.0)
        padded = f" {word} "
        for start in range(len(padded) - 2):
            _add(vector, padded[start : start + 3], weight=0.5)
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / length for value in vector]


def count_tokens(text: str) -> int:
    """Return how many words a text has."""
    return len(_WORD.findall(text))


def _add(vector: list[float], feature: str, *, weight: float) -> None:
    digest = zlib.crc32(feature.encode())
    vector[digest % DIMENSIONS] += weight if digest & 0x10000 else -weight
