"""How a verification reads pages from a web server that is killed and begun anew in the middle."""

from __future__ import annotations

import socket
import struct
import threading

import httpx
import pytest

from scheduler.management.verify.pages import READ_AGAIN, Patient

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
NO_LINGER = struct.pack("ii", 1, 0)


def reset(connection):
    """Close as the kernel does for a process that was killed: by a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    connection.close()


@pytest.fixture
def server():
    """A server that meets each connection as the test says, and its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    met, plan = [], []

    def serve():
        while True:
            try:
                connection, _address = listening.accept()
            except OSError:
                return
            met.append(connection.recv(65536).split(b" ")[0].decode())
            what = plan.pop(0) if plan else "answer"
            if what == "reset":
                reset(connection)
            else:
                connection.sendall(ANSWER[:-2] if what == "cut" else ANSWER)
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", plan, met
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(timeout=10)


@pytest.mark.parametrize("how", ["reset", "cut"])
def test_a_page_that_was_cut_short_is_read_again(server, how):
    url, plan, met = server
    plan.append(how)
    with httpx.Client(transport=Patient()) as client:
        assert client.get(url).text == "hello"
    assert met == ["GET", "GET"]


def test_what_changes_something_is_sent_once(server):
    url, plan, met = server
    plan.append("reset")
    with httpx.Client(transport=Patient()) as client, pytest.raises(httpx.TransportError):
        client.post(url, data={"name": "nlp"})
    assert met == ["POST"]


def test_a_server_that_never_answers_is_given_up(server):
    url, plan, met = server
    plan.extend(["reset"] * 10)
    with httpx.Client(transport=Patient()) as client, pytest.raises(httpx.TransportError):
        client.get(url)
    assert len(met) == READ_AGAIN + 1
