"""Ports of this machine: one for each service and each gang's meeting point."""

from __future__ import annotations

import socket

from scheduler.engines.base import EngineUnreachable


def find_free(port_range: tuple[int, int], *, taken: set[int], start: int = 0) -> int:
    """Return the first port of the range that is not taken and that nothing listens on.

    The search begins ``start`` places on and comes round: a port is given out some seconds before
    its service listens, and two engines of one machine must not give out the same one meanwhile.

    Raises:
        EngineUnreachable: none is free now.
    """
    first, last = port_range
    span = last - first + 1
    for place in range(span):
        port = first + (start + place) % span
        if port not in taken and _can_listen(port):
            return port
    raise EngineUnreachable(f"no port from {first} to {last} is free")


def _can_listen(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:  # another program has it
            return False
    return True
