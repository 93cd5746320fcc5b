"""Which host names the server answers to."""

from __future__ import annotations

import socket

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
EVERYWHERE = frozenset({"0.0.0.0", "::", ""})


def allowed_hosts(*, bound_to: str) -> list[str]:
    """Return the names for a server bound to ``bound_to``.

    Bound everywhere, that is this machine's own names and addresses; a name that only a name
    server knows is given by TIDEGATE_ALLOWED_HOSTS.
    """
    names = list(LOCAL_NAMES)
    if bound_to not in EVERYWHERE:
        names.append(_written(bound_to))
    else:
        names += own_names()
    return list(dict.fromkeys(names))


def own_names() -> list[str]:
    name = socket.gethostname()
    try:
        found = socket.getaddrinfo(name, None)
    except OSError:
        found = []
    return [name, socket.getfqdn(name), *(_written(str(entry[4][0])) for entry in found)]


def _written(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
