"""One request of a caller: its head, its body as it comes, its answer, and whether the caller is gone."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import IO, Any

from gateway.errors import BadRequest, GatewayError, TooLarge
from gateway.model_name import ModelScanner

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

MAX_BODY_BYTES = 64 * 1024 * 1024
#: What is held of a body in memory while it can't be sent on; the rest waits in a file.
IN_MEMORY_BYTES = 128 * 1024
FILE_READ_BYTES = 64 * 1024


class Exchange:
    """A caller's request and the answer to it.

    Once it listens, a pump of its own reads the caller, so that one that goes away is noticed at any
    time: the task that serves the exchange is then canceled, and ``gone`` says why.
    """

    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_path: bytes = scope.get("raw_path") or self.path.encode()
        self.query: bytes = scope["query_string"]
        self.headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self._by_name = dict(reversed(self.headers))  # of equals the first
        self._receive = receive
        self._send = send
        self._owner = asyncio.current_task()
        self._pump: asyncio.Task[None] | None = None
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._size = 0
        self._file: IO[bytes] | None = None
        self._file_read = self._file_written = 0
        self._arrived = asyncio.Event()
        self._scanner: ModelScanner | None = None
        self.body_complete = False
        #: It is a stream whose caller does not ask for its usage, and could be asked for it.
        self.hides_usage = False
        self.gone = False
        self.problem: GatewayError | None = None
        self.answering = False
        self._over = False

    def header(self, name: bytes) -> bytes | None:
        """Return the value of a header, or None."""
        return self._by_name.get(name)

    # -- the body --------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the first part of the body, and where there is more, then the rest as it comes."""
        self._take(await self._receive())
        if not self.body_complete:
            self.listen()

    def listen(self) -> None:
        """Begin to hear whether the caller goes away, unless the exchange is over."""
        if self._pump is None and not self._over:
            self._pump = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop reading the caller and drop what was held."""
        self._over = True
        if self._pump is not None:
            self._pump.cancel()
        if self._file is not None:
            self._file.close()
            self._file = None

    async def find_model(self) -> str:
        """Return what the JSON body names as its model. What was read stays to be sent on.

        Raises:
            BadRequest: no JSON object, or none that names a model.
        """
        if self.body_complete and self._file is None:
            content = _object_of(b"".join(self._chunks))
            self.hides_usage = content.get("stream") is True and "stream_options" not in content
            return str(content["model"])
        self._scanner = ModelScanner()
        for chunk in self._chunks:
            self._scanner.feed(chunk)
        if self._file is not None:
            self._file.seek(0)
            while part := self._file.read(FILE_READ_BYTES):
                self._scanner.feed(part)
        while self._scanner.found is None and not self.body_complete and not self._scanner.failed:
            self._arrived.clear()
            await self._arrived.wait()
        found, self._scanner = self._scanner.found, None
        if not found:
            raise _no_model()
        return found

    def whole_body(self) -> bytes | None:
        """Return the body if all of it is in memory, else None."""
        if not self.body_complete or self._file is not None:
            return None
        if len(self._chunks) > 1:
            joined = b"".join(self._chunks)
            self._chunks = deque([joined])
        return self._chunks[0] if self._chunks else b""

    async def chunks(self) -> AsyncIterator[bytes]:
        """Give the body part by part; what is given is not held any longer."""
        while True:
            if self._chunks:
                chunk = self._chunks.popleft()
                self._held -= len(chunk)
                yield chunk
            elif self._file is not None and self._file_read < self._file_written:
                self._file.seek(self._file_read)
                part = self._file.read(FILE_READ_BYTES)
                self._file_read += len(part)
                yield part
            elif self.body_complete:
                return
            else:
                self._arrived.clear()
                await self._arrived.wait()

    async def _run(self) -> None:
        while not self.gone and self.problem is None:
            self._take(await self._receive())

    def _take(self, message: Any) -> None:
        if message["type"] == "http.disconnect":
            self.gone = True
            self._interrupt()
            return
        chunk = message.get("body", b"")
        if chunk:
            self._size += len(chunk)
            if self._size > MAX_BODY_BYTES:
                self.problem = TooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes.")
                self._interrupt()
                return
            if self._scanner is not None:
                self._scanner.feed(chunk)
            self._hold(chunk)
        if not message.get("more_body", False):
            self.body_complete = True
        self._arrived.set()

    def _hold(self, chunk: bytes) -> None:
        if self._file is None and self._held + len(chunk) <= IN_MEMORY_BYTES:
            self._chunks.append(chunk)
            self._held += len(chunk)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._file.seek(self._file_written)
        self._file.write(chunk)
        self._file_written += len(chunk)

    def _interrupt(self) -> None:
        if not self._over and self._owner is not None:
            self._owner.cancel()

    # -- the answer ------------------------------------------------------------------------------

    async def begin_answer(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send status and headers."""
        self.answering = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send_part(self, data: bytes) -> None:
        """Send a part of the answer; waits while the caller reads more slowly than it comes."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end_answer(self, data: bytes = b"") -> None:
        """Send the last part."""
        self._over = True
        await self._send({"type": "http.response.body", "body": data})

    async def answer(
        self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Send a whole answer."""
        own = [(b"content-length", str(len(body)).encode())]
        await self.begin_answer(status, [*headers, *own])
        await self.end_answer(b"" if self.method == "HEAD" else body)

    async def answer_json(self, content: object) -> None:
        """Send a whole answer as JSON."""
        body = json.dumps(content).encode()
        await self.answer(200, body, [(b"content-type", b"application/json")])

    async def refuse(self, error: GatewayError) -> None:
        """Send an error, unless an answer has begun."""
        if not self.answering:
            await self.answer(error.status, error.body(), error.headers())


def _object_of(body: bytes) -> dict[str, object]:
    try:
        content = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"The body is not valid JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), str):
        raise _no_model()
    return content


def _no_model() -> BadRequest:
    return BadRequest(
        'Give the model as "model" in a JSON object; GET /v1/models lists those of your key.',
        param="model",
    )
