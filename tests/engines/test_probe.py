"""The readiness probe: what it takes for an answer, and that it leaves a service in peace."""

from __future__ import annotations

import socket
import threading

import pytest

from scheduler.engines.shim.probe import has_answered


class Answers(threading.Thread):
    """A service that takes one caller and answers it in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(daemon=True)
        self.pieces = pieces
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.error: OSError | None = None
        self.start()

    def run(self) -> None:
        caller, _ = self.door.accept()
        with self.door, caller:
            caller.recv(1000)
            try:
                for piece in self.pieces:
                    caller.sendall(piece)
                    threading.Event().wait(0.02)
            except OSError as error:
                self.error = error


def test_an_answer_is_read_to_its_end_so_that_the_service_can_write_it():
    service = Answers(b"HTTP/1.1 200 OK\r\n", b"Content-Length: 4\r\n\r\n", b"go", b"od", b"")
    assert has_answered(port=service.port, path="/health")
    service.join()
    assert service.error is None


@pytest.mark.parametrize(
    ("status", "ready"),
    [("200 OK", True), ("204 No Content", True), ("302 Found", False), ("503 Busy", False)],
)
def test_a_2xx_status_alone_is_ready(status, ready):
    service = Answers(f"HTTP/1.0 {status}\r\n\r\n".encode())
    assert has_answered(port=service.port, path="/") is ready


def test_what_does_not_listen_or_does_not_speak_http_is_not_ready():
    silent = Answers(b"hello there\r\n")
    assert not has_answered(port=silent.port, path="/")
    silent.join()
    assert not has_answered(port=silent.port, path="/")
