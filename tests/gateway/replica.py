"""A replica for tests, as a process: an OpenAI-shaped server that does what a request tells it to.

    python -m tests.gateway.replica PORT

The last message says what to do, such as ``id=7 wait=0.2 chunks=5 gap=0.1 die=3``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import uvicorn


class Replica:
    """Remembers what it got, in order, and how many requests it had at once."""

    def __init__(self):
        self.order = []
        self.here = 0
        self.most = 0
        self.broken_off = 0
        self.headers = []
        self.gauge = 0
        self.leaving = False
        self.plain = False
        self.refused = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        path = scope["path"]
        if path == "/seen":
            await _answer_json(send, self._seen())
        elif path == "/health":
            await _answer_json(send, {})
        elif path == "/metrics":
            text = f'# TYPE queue_length gauge\nqueue_length{{model="a"}} {self.gauge}\n'
            await _answer(send, 200, text.encode(), b"text/plain")
        elif path == "/plain":
            self.plain = True
            await _answer_json(send, {})
        elif path == "/leave":
            self.leaving = True
            await _answer_json(send, {})
        elif path.startswith("/gauge/"):
            self.gauge = int(path.removeprefix("/gauge/"))
            await _answer_json(send, {})
        else:
            await self._work(scope, receive, send)

    async def _work(self, scope, receive, send):
        guest = _Guest(self, send)
        self.headers = [name.decode() for name, _ in scope["headers"]]
        try:
            body = await _read(receive)
            await self._do(scope, receive, guest.send, body)
        finally:
            guest.leave()

    async def _do(self, scope, receive, send, body):
        if self.leaving:
            await _answer(send, 503, b"{}", b"application/json", retry_after=b"1")
            return
        if scope["path"].startswith("/echo"):
            told = {"path": scope["path"], "query": scope["query_string"].decode()}
            await _answer_json(send, {**told, "size": len(body), "method": scope["method"]})
            return
        try:
            asked = json.loads(body)
        except ValueError:
            await _answer_json(send, {"error": {"message": "malformed"}}, status=400)
            return
        if self.plain and "stream_options" in asked:
            self.refused += 1
            await _answer_json(send, {"error": {"message": "stream_options?"}}, status=400)
            return
        if scope["path"] == "/v1/embeddings":
            await _answer_json(send, _embeddings(asked))
            return
        plan = _plan_of(asked)
        self.order.append(plan.get("id", ""))
        gone = asyncio.ensure_future(_until_gone(receive))
        talk = asyncio.ensure_future(self._talk(send, asked, plan))
        await asyncio.wait({gone, talk}, return_when=asyncio.FIRST_COMPLETED)
        if not talk.done():
            talk.cancel()
            self.broken_off += 1
        gone.cancel()

    async def _talk(self, send, asked, plan):
        await asyncio.sleep(float(plan.get("wait", 0)))
        chunks = int(plan.get("chunks", 3))
        if not asked.get("stream"):
            await _answer_json(send, _completion(asked, chunks, os.getpid()))
            return
        head = [(b"content-type", b"text/event-stream"), (b"set-cookie", b"a=b")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for number in range(chunks):
            await send(_event(_chunk(asked, {"content": f"w{number} "})))
            if plan.get("die") == str(number):
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.sleep(float(plan.get("gap", 0)))
        if (asked.get("stream_options") or {}).get("include_usage"):
            last = {**_chunk(asked, {}), "choices": [], "usage": _usage(chunks)}
            await send(_event(last))
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    def _seen(self):
        return {
            "order": self.order,
            "most": self.most,
            "here": self.here,
            "broken_off": self.broken_off,
            "headers": self.headers,
            "refused": self.refused,
        }


class _Guest:
    """One request as the replica counts it: here until the last byte of its answer is handed over.

    Were it counted until its task has ended, the next one, who may come as soon as that byte is read,
    would now and then be seen beside it.
    """

    def __init__(self, replica, send):
        self._replica = replica
        self._send = send
        self._is_here = True
        replica.here += 1
        replica.most = max(replica.most, replica.here)

    async def send(self, message):
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.leave()
        await self._send(message)

    def leave(self):
        if self._is_here:
            self._is_here = False
            self._replica.here -= 1


def _plan_of(asked):
    messages = asked.get("messages") or [{"content": asked.get("prompt", "")}]
    words = str(messages[-1]["content"]).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def _usage(made):
    return {"prompt_tokens": 11, "completion_tokens": made, "total_tokens": 11 + made}


def _completion(asked, made, pid):
    text = f"answer of {pid}"
    choice = {"index": 0, "finish_reason": "stop"}
    return {
        "id": "cmpl-1",
        "object": "chat.completion" if "messages" in asked else "text_completion",
        "created": 1,
        "model": asked["model"],
        "choices": [{**choice, "message": {"role": "assistant", "content": text}, "text": text}],
        "usage": _usage(made),
    }


def _chunk(asked, delta):
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {
        "id": "cmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": asked["model"],
        "choices": [choice],
    }


def _embeddings(asked):
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    rows = [
        {"object": "embedding", "index": n, "embedding": [float(len(text)), 0.5]}
        for n, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return {"object": "list", "model": asked["model"], "data": rows, "usage": usage}


def _event(content):
    data = b"data: " + json.dumps(content).encode() + b"\n\n"
    return {"type": "http.response.body", "body": data, "more_body": True}


async def _read(receive):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _until_gone(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer_json(send, content, *, status=200):
    await _answer(send, status, json.dumps(content).encode(), b"application/json")


async def _answer(send, status, body, kind, *, retry_after=None):
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", retry_after))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    uvicorn.run(Replica(), host="127.0.0.1", port=int(sys.argv[1]), log_level="error", backlog=2048)
