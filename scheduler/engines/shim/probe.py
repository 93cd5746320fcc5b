"""Asks a service, again and again, whether it is ready. A thread, so that nothing else waits."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

_UNTIL_READY_S = 0.2
_ONCE_READY_S = 3.0
_TIMEOUT_S = 2.0
_REST_S = 0.2
_LONGEST_REST = 65536
_FAILURES = 3


class Probe(threading.Thread):
    """``ready`` follows the answers: one good makes it true, three bad in a row make it false."""

    def __init__(self, *, host: str, port: int, path: str, on_change: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._host = host
        self._port = port
        self._path = path
        self._on_change = on_change
        self.ready = False

    def run(self) -> None:
        """Probe for as long as the process lives."""
        failures = 0
        while True:
            failures = 0 if self._has_answered() else failures + 1
            ready = failures == 0 or (self.ready and failures < _FAILURES)
            if ready != self.ready:
                self.ready = ready
                self._on_change()
            time.sleep(_ONCE_READY_S if ready else _UNTIL_READY_S)

    def _has_answered(self) -> bool:
        return has_answered(host=self._host, port=self._port, path=self._path)


def has_answered(*, port: int, path: str, host: str = "127.0.0.1") -> bool:
    """Test whether a GET of ``path`` on this machine is answered with a 2xx status."""
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(request.encode("ascii", errors="replace"))
            status = connection.recv(64).split(b" ", 2)
            _read_rest(connection)
    except OSError:  # refused, reset, too slow: not ready
        return False
    return len(status) > 1 and status[0].startswith(b"HTTP/") and status[1][:1] == b"2"


def _read_rest(connection: socket.socket) -> None:
    """Take the rest of the answer: a service whose caller hangs up on it would log an error."""
    connection.settimeout(_REST_S)
    left = _LONGEST_REST
    try:
        while left > 0 and (part := connection.recv(4096)):
            left -= len(part)
    except OSError:  # the answer is known; how it ends says nothing
        return
