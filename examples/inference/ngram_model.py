"""A small text model that needs nothing installed: word trigrams of Python's own documentation.

It is trained when it is made, in a second, and answers in the manner of a manual. It stands in where
no language model is installed, and says so.
"""

from __future__ import annotations

import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from pydoc_data import topics

from models import Piece, Wish

_TRAINED_CHARACTERS = 300_000
_WORD = re.compile(r"[A-Za-z']+|[.,;:?!]")
_ENDS = frozenset(".?!")
_LEAST_WORDS = 12


class NgramModel:
    """Continues text word by word, each drawn from what followed the two before it."""

    def __init__(self, *, token_seconds: float) -> None:
        self.description = "word trigrams of Python's documentation, not a language model"
        self._token_seconds = token_seconds
        self._after: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._begins: list[tuple[str, str]] = []
        text = " ".join(topics.topics[name] for name in sorted(topics.topics))
        self._train(_WORD.findall(text[:_TRAINED_CHARACTERS]))

    def generate(self, wish: Wish) -> Iterator[Piece]:
        """Yield words as they are drawn; the same wish at temperature 0 gives the same words."""
        asked = wish.prompt or " ".join(content for _, content in wish.messages)
        words = _WORD.findall(asked)
        seed = asked if wish.temperature == 0 else None
        drawn, reason = 0, "length"
        for word in self._draw(words, random.Random(seed)):
            if drawn == wish.max_tokens:
                break
            time.sleep(self._token_seconds)
            yield Piece(text=word if word in ".,;:?!" or drawn == 0 else f" {word}")
            drawn += 1
            if word in _ENDS and drawn >= _LEAST_WORDS:
                reason = "stop"
                break
        yield Piece(finish_reason=reason, prompt_tokens=len(words), completion_tokens=drawn)

    def _train(self, words: list[str]) -> None:
        for first, second, third in zip(words, words[1:], words[2:], strict=False):
            self._after[first, second].append(third)
            if first in _ENDS:
                self._begins.append((second, third))

    def _draw(self, words: list[str], chance: random.Random) -> Iterator[str]:
        pair = (words[-2], words[-1]) if len(words) > 1 else ("", "")
        while True:
            follow = self._after.get(pair)
            if follow:
                word = chance.choice(follow)
                yield word
                pair = (pair[1], word)
            else:
                pair = chance.choice(self._begins)
                yield from pair
