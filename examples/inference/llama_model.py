"""SmolLM2 on the CPU through llama.cpp: one thread, so that neighbours keep theirs."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xllamacpp
from models import Piece, Wish

_CONTEXT_TOKENS = 4096
_PARALLEL = 2


class LlamaModel:
    """The model in this process. Requests beyond two at a time wait inside."""

    def __init__(self, path: Path) -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(path)
        parameters.n_ctx = _CONTEXT_TOKENS
        parameters.n_parallel = _PARALLEL
        parameters.cpuparams.n_threads = 1
        parameters.cpuparams_batch.n_threads = 1
        parameters.warmup = False
        parameters.verbosity = 1
        parameters.api_keys = [secrets.token_hex(16)]  # it listens too: for nobody but us
        self._server = xllamacpp.Server(parameters)
        self.description = f"{path.stem} on the CPU (llama.cpp)"

    def generate(self, wish: Wish) -> Iterator[Piece]:
        """Yield pieces as they come. Whoever stops asking stops the work."""
        pieces: queue.Queue[dict[str, Any] | None] = queue.Queue()
        gone = threading.Event()

        def take(reply: dict[str, Any]) -> bool:
            pieces.put(reply)
            return gone.is_set()  # true ends the generation

        def work() -> None:
            try:
                if wish.messages:
                    self._server.handle_chat_completions(_request(wish), take)
                else:
                    self._server.handle_completions(_request(wish), take)
            finally:
                pieces.put(None)

        threading.Thread(target=work, daemon=True).start()
        try:
            yield from _read(pieces)
        finally:
            gone.set()


def _request(wish: Wish) -> dict[str, Any]:
    request: dict[str, Any] = {
        "max_tokens": wish.max_tokens,
        "temperature": wish.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if wish.messages:
        request["messages"] = [{"role": role, "content": text} for role, text in wish.messages]
    else:
        request["prompt"] = wish.prompt
    return request


def _read(pieces: queue.Queue[dict[str, Any] | None]) -> Iterator[Piece]:
    reason, usage = "stop", {}
    while (reply := pieces.get()) is not None:
        if "error" in reply:
            raise ValueError(str(reply["error"].get("message", reply["error"])))
        usage = reply.get("usage", usage)
        for choice in reply.get("choices", []):
            reason = choice.get("finish_reason") or reason
            text = choice.get("text") or choice.get("delta", {}).get("content")
            if text:
                yield Piece(text=text)
    yield Piece(
        finish_reason=reason,
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
    )
