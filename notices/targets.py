"""Where webhooks may go: checked when an address is set, and again with the address that is used.

A name is looked up once for each request, what it stands for is checked, and that very number is
connected to: a name that stands for something else a moment later changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
MOST_CHARACTERS = 1000


class TargetRefused(Exception):
    """The address may not be used. ``code``: which rule it breaks."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An address to connect to: the number that its name stands for now, and all else of it."""

    host: str
    address: str
    port: int
    is_https: bool
    path: str

    @property
    def url(self) -> str:
        """Return the address with the number in place of the name."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.is_https else 'http'}://{host}:{self.port}{self.path}"

    @property
    def host_header(self) -> str:
        """Return what the receiver is told that it is called."""
        usual = 443 if self.is_https else 80
        return self.host if self.port == usual else f"{self.host}:{self.port}"


def parse(url: str) -> SplitResult:
    """Return an address in parts.

    Raises:
        TargetRefused: ``bad_url``: no http or https address with a host, or one with a user in it.
    """
    try:
        parts = urlsplit(url.strip())
        has_port = parts.port is None or 0 < parts.port < 65_536
    except ValueError as error:
        raise TargetRefused("bad_url") from error
    good = (
        len(url) <= MOST_CHARACTERS
        and parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and parts.username is None
        and has_port
        and url.isprintable()
    )
    if not good:
        raise TargetRefused("bad_url")
    return parts


def resolve(url: str) -> Target:
    """Look the name up and return what may be connected to.

    Raises:
        TargetRefused: ``bad_url``; ``unknown_host``; ``forbidden_network``: one of the numbers that
            the name stands for is this machine's, the local network's or otherwise not public, and
            no setting allows it.
    """
    parts = parse(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = _look_up(host, port)
    if not addresses:
        raise TargetRefused("unknown_host")
    if not all(map(is_allowed, addresses)):
        raise TargetRefused("forbidden_network")
    path = parts.path or "/"
    return Target(
        host=host,
        address=str(addresses[0]),
        port=port,
        is_https=parts.scheme == "https",
        path=f"{path}?{parts.query}" if parts.query else path,
    )


def is_allowed(address: Address) -> bool:
    """Test whether a number is public, or in a network that the installation allows."""
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    if inner is not None and not is_allowed(inner):
        return False
    for network in settings.WEBHOOK_NETWORKS:
        if address in ipaddress.ip_network(network, strict=False):
            return True
    return address.is_global and not address.is_multicast


def _look_up(host: str, port: int) -> Sequence[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    numbers = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(number) for number in numbers]
