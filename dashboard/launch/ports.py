"""Finds ports that nobody listens on."""

from __future__ import annotations

import errno
import socket

TRIES = 100


def free_port(*, host: str, wanted: int) -> int:
    """Return ``wanted``, or the first free port above it; 0 asks for any."""
    if wanted == 0:
        return _bound_port(host, 0)
    for port in range(wanted, min(wanted + TRIES, 65536)):
        try:
            return _bound_port(host, port)
        except OSError as error:
            if not _is_taken(error):
                raise
    raise OSError(f"none of the ports {wanted} to {wanted + TRIES - 1} is free on {host}")


def _bound_port(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the server does: connections that just ended do not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        # Another listener that allows sharing is noticed only here.
        probe.listen(1)
        return int(probe.getsockname()[1])


def _is_taken(error: OSError) -> bool:
    return error.errno in {errno.EADDRINUSE, errno.EACCES}
