"""OpenAI's shapes: requests are checked here, and answers put together."""

from __future__ import annotations

import time
import uuid
from typing import Any

import embeddings
from models import Piece, Wish

MOST_TOKENS = 2048


class BadRequest(Exception):
    """What was asked can't be answered; the message says why."""


def read_wish(body: dict[str, Any], *, chat: bool) -> Wish:
    """Return what a request for text asks for.

    Raises:
        BadRequest: a field is missing or of the wrong kind.
    """
    max_tokens = body.get("max_tokens") or body.get("max_completion_tokens") or 128
    temperature = body.get("temperature", 0.7)
    if not isinstance(max_tokens, int) or not 1 <= max_tokens <= MOST_TOKENS:
        raise BadRequest(f"max_tokens must be a whole number from 1 to {MOST_TOKENS}")
    if not isinstance(temperature, int | float) or temperature < 0:
        raise BadRequest("temperature must be a number, 0 or more")
    if not chat:
        if not isinstance(body.get("prompt"), str):
            raise BadRequest("prompt must be a text")
        return Wish(prompt=body["prompt"], max_tokens=max_tokens, temperature=float(temperature))
    return Wish(
        messages=_read_messages(body.get("messages")),
        max_tokens=max_tokens,
        temperature=float(temperature),
    )


def _read_messages(messages: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list with at least one message")
    read = []
    for message in messages:
        is_message = isinstance(message, dict) and isinstance(message.get("role"), str)
        if not is_message or not isinstance(message.get("content"), str):
            raise BadRequest("each message must have a role and a content, both texts")
        read.append((message["role"], message["content"]))
    return tuple(read)


class Shape:
    """One answer in the making: a chat's or a completion's, whole or in chunks."""

    def __init__(self, *, model: str, chat: bool) -> None:
        self._chat = chat
        self._model = model
        self._id = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._created = int(time.time())

    def whole(self, text: str, last: Piece) -> dict[str, Any]:
        """Return the answer in one."""
        content: dict[str, Any] = (
            {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        )
        choice = {"index": 0, "finish_reason": last.finish_reason, **content}
        return self._frame(choices=[choice], usage=usage_of(last), chunk=False)

    def chunk(self, piece: Piece, *, first: bool) -> dict[str, Any]:
        """Return one chunk of a stream."""
        content: dict[str, Any] = {"text": piece.text}
        if self._chat:
            delta = {"role": "assistant"} if first else {}
            content = {"delta": {**delta, **({"content": piece.text} if piece.text else {})}}
        choice = {"index": 0, "finish_reason": piece.finish_reason, **content}
        return self._frame(choices=[choice], usage=None, chunk=True)

    def usage(self, last: Piece) -> dict[str, Any]:
        """Return the chunk that closes a stream with its counts."""
        return self._frame(choices=[], usage=usage_of(last), chunk=True)

    def _frame(
        self, *, choices: list[dict[str, Any]], usage: dict[str, int] | None, chunk: bool
    ) -> dict[str, Any]:
        kind = "text_completion"
        if self._chat:
            kind = "chat.completion.chunk" if chunk else "chat.completion"
        frame = {"id": self._id, "object": kind, "created": self._created, "model": self._model}
        return {**frame, "choices": choices, **({} if usage is None else {"usage": usage})}


def usage_of(last: Piece) -> dict[str, int]:
    """Return the counts of an answer."""
    return {
        "prompt_tokens": last.prompt_tokens,
        "completion_tokens": last.completion_tokens,
        "total_tokens": last.prompt_tokens + last.completion_tokens,
    }


def answer_embeddings(body: dict[str, Any], *, model: str) -> dict[str, Any]:
    """Return the vectors of a text or of several.

    Raises:
        BadRequest: the input is neither.
    """
    given = body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise BadRequest("input must be a text or a list of texts")
    tokens = sum(embeddings.count_tokens(text) for text in texts)
    data = [
        {"object": "embedding", "index": index, "embedding": embeddings.embed(text)}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}
