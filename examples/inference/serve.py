"""A small inference server in OpenAI's shape: chat, completions, embeddings, health, metrics.

It shows what a service does to live well under Tidegate: it listens on the PORT it is given, is
ready only once its model is loaded, and on SIGTERM finishes the requests it has and leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import api
from models import Piece, TextModel, load_model

_LARGEST_BODY = 4 * 2**20
SLEEP_S = 3600.0
_SIGTERM_EXIT = 128 + signal.SIGTERM


class Service:
    """What all requests share: the model, the counts, and whether new ones are taken."""

    def __init__(self, *, name: str) -> None:
        self.name = name
        self.model: TextModel | None = None
        self.draining = False
        self.in_flight = 0
        self.requests = 0
        self.failures = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._lock = threading.Lock()
        self._none_left = threading.Condition(self._lock)

    def __enter__(self) -> Service:
        with self._lock:
            self.in_flight += 1
            self.requests += 1
        return self

    def __exit__(self, kind: object, _error: object, _trace: object) -> None:
        with self._lock:
            self.in_flight -= 1
            self.failures += kind is not None
            self._none_left.notify_all()

    def count(self, last: Piece) -> None:
        """Add an answer's tokens."""
        with self._lock:
            self.prompt_tokens += last.prompt_tokens
            self.completion_tokens += last.completion_tokens

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until no request is in flight, and tell whether that came in time."""
        with self._lock:
            return self._none_left.wait_for(lambda: self.in_flight == 0, timeout=timeout_s)

    def metrics(self) -> str:
        """Return the counts as Prometheus reads them."""
        counts = {
            "requests_total": ("counter", self.requests),
            "request_failures_total": ("counter", self.failures),
            "prompt_tokens_total": ("counter", self.prompt_tokens),
            "completion_tokens_total": ("counter", self.completion_tokens),
            "requests_in_flight": ("gauge", self.in_flight),
        }
        return "".join(
            f"# TYPE {name} {kind}\n{name} {value}\n" for name, (kind, value) in counts.items()
        )


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    #: Small parts go out at once; on a kept connection each would wait 40 ms for the one before.
    disable_nagle_algorithm = True
    service: Service
    timeout = 60

    def do_GET(self) -> None:
        """Answer what can be asked without a body."""
        service = self.service
        match self.path.partition("?")[0]:
            case "/health" if service.model is None or service.draining:
                self._send_json({"status": "loading" if service.model is None else "draining"}, 503)
            case "/health":
                assert service.model is not None
                self._send_json({"status": "ok", "model": service.model.description})
            case "/v1/models":
                model = {"id": service.name, "object": "model", "owned_by": "tidegate-example"}
                self._send_json({"object": "list", "data": [model]})
            case "/metrics":
                self._send(service.metrics().encode(), "text/plain; version=0.0.4")
            case _:
                self._send_error(404, "there is no such page")

    def do_POST(self) -> None:
        """Answer a request to the model."""
        service = self.service
        if service.model is None or service.draining:
            self.close_connection = True  # its body was not read
            self._send_error(503, "the model is loading" if service.model is None else "stopping")
            return
        try:
            body = self._read_body()
            with service:
                self._answer(body, service.model)
        except api.BadRequest as refused:
            self._send_error(400, str(refused))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client went away; its generation stopped with it

    def _answer(self, body: dict[str, Any], model: TextModel) -> None:
        match self.path:
            case "/v1/embeddings":
                self._send_json(api.answer_embeddings(body, model=self.service.name))
            case "/v1/chat/completions" | "/v1/completions":
                chat = self.path == "/v1/chat/completions"
                wish = api.read_wish(body, chat=chat)
                shape = api.Shape(model=self.service.name, chat=chat)
                if body.get("stream"):
                    options = body.get("stream_options") or {}
                    self._stream(model.generate(wish), shape, bool(options.get("include_usage")))
                else:
                    pieces = list(model.generate(wish))
                    self.service.count(pieces[-1])
                    text = "".join(piece.text for piece in pieces)
                    self._send_json(shape.whole(text, pieces[-1]))
            case _:
                self._send_error(404, "there is no such page")

    def _stream(self, pieces: Any, shape: api.Shape, with_usage: bool) -> None:  # noqa: FBT001
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        last = Piece()
        for number, piece in enumerate(pieces):
            self._send_event(json.dumps(shape.chunk(piece, first=number == 0)))
            last = piece
        self.service.count(last)
        if with_usage:
            self._send_event(json.dumps(shape.usage(last)))
        self._send_event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _send_event(self, text: str) -> None:
        event = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.flush()

    def _read_body(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 < length <= _LARGEST_BODY:
            self.close_connection = True
            raise api.BadRequest(f"a body of 1 to {_LARGEST_BODY} bytes is needed")
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            raise api.BadRequest("the body is not JSON") from None
        if not isinstance(body, dict):
            raise api.BadRequest("the body must be a JSON object")
        return body

    def _send_json(self, value: dict[str, Any], status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send_error(self, status: int, message: str) -> None:
        kind = "invalid_request_error" if status < 500 else "server_error"
        self._send_json({"error": {"message": message, "type": kind, "code": None}}, status)

    def _send(self, content: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing for each request: the counts are at /metrics."""


class Server(ThreadingHTTPServer):
    """Takes connections. Those that are open don't keep the process from leaving."""

    daemon_threads = True
    request_queue_size = 128

    def end(self) -> None:
        """Take no more connections. The loop is woken by its own socket, however long it sleeps."""
        ending = threading.Thread(target=self.shutdown)
        ending.start()
        self.socket.shutdown(socket.SHUT_RDWR)
        ending.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of callers that went away; they are no fault of the service."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def say(text: str) -> None:
    """Print a line with the time before it, at once."""
    print(time.strftime("[%H:%M:%S] ") + text, flush=True)


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default=os.environ.get("HOST", "127.0.0.1"))
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8080")))
    parser.add_argument("--name", default="smollm2", help="the model's name in the API")
    parser.add_argument("--model", choices=["auto", "llama", "ngram"], default="auto")
    parser.add_argument("--token-seconds", type=float, default=0.02, help="pace of the n-grams")
    parser.add_argument("--load-seconds", type=float, default=0.0, help="stretch loading")
    parser.add_argument("--drain-seconds", type=float, default=25.0, help="to finish requests")
    return parser.parse_args()


def main() -> int:
    """Serve until SIGTERM."""
    options = read_options()
    service = Service(name=options.name)
    bound = type("Bound", (Handler,), {"service": service})
    server = Server((options.host, options.port), bound)
    asked_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signum, _frame: asked_to_end.set())
    signal.signal(signal.SIGINT, lambda _signum, _frame: asked_to_end.set())
    # A server that nobody asks sleeps; it is woken by a caller, or by the end.
    threading.Thread(target=server.serve_forever, args=(SLEEP_S,), daemon=True).start()
    say(f">>> total memory {os.environ.get('TIDEGATE_GPU_MEMORY_MIB', '0')} MiB")
    began_s = time.monotonic()
    asked_to_end.wait(options.load_seconds)
    if not asked_to_end.is_set():
        service.model = load_model(kind=options.model, token_seconds=options.token_seconds)
        took_s = time.monotonic() - began_s
        say(f">>> ready on port {options.port} after {took_s:.1f}s: {service.model.description}")
    asked_to_end.wait()
    service.draining = True
    say(f"!!! received SIGTERM - finishing {service.in_flight} requests")
    server.end()
    finished = service.wait_until_idle(options.drain_seconds)
    say(">>> all requests finished" if finished else "!!! out of time, requests cut off")
    return _SIGTERM_EXIT


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads inside the model runtime would delay an ordinary exit
