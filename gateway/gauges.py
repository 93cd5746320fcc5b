"""Reads a service's own number from its replicas' metrics pages, in Prometheus' text form."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal, InvalidOperation

from gateway.upstream import Broken, Refused, Upstream, head_of
from scheduler.queries.routes import Endpoint

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
MOST_BYTES = 4 * 1024 * 1024
#: Beyond this a number is taken for a mistake.
MOST = Decimal(10**12)


async def read_gauge(*, upstream: Upstream, endpoint: Endpoint, path: str, name: str) -> int | None:
    """Return a replica's number in thousandths, or None where it does not tell one."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            page = await _read_page(upstream, endpoint, path)
    except (Refused, Broken, TimeoutError):
        log.debug("gateway.gauge.away", extra={"replica_id": endpoint.replica_id})
        return None
    return find_gauge(page=page, name=name)


def find_gauge(*, page: str, name: str) -> int | None:
    """Return the sum over a metric's lines, in thousandths, or None where it has none."""
    found: list[Decimal] = []
    for line in page.splitlines():
        if not line.startswith(name) or line[len(name) : len(name) + 1] not in ("{", " ", "\t"):
            continue
        value = _value_of(line)
        if value is not None:
            found.append(value)
    return int(sum(found) * 1000) if found else None


def _value_of(line: str) -> Decimal | None:
    words = line.rpartition("}")[2].split() if "{" in line else line.split()[1:]
    try:
        value = Decimal(words[0])
    except (IndexError, InvalidOperation):
        return None
    return value if value.is_finite() and 0 <= value <= MOST else None


async def _read_page(upstream: Upstream, endpoint: Endpoint, path: str) -> str:
    connection = await upstream.connect(endpoint.host, endpoint.port)
    host = f"{endpoint.host}:{endpoint.port}"
    try:
        connection.begin(b"GET", head_of(method="GET", target=path.encode(), host=host, headers=[]))
        await connection.wait_for_head()
        page = bytearray()
        while (data := await connection.read()) and len(page) < MOST_BYTES:
            page += data
    except BaseException:
        connection.close()
        raise
    finally:
        upstream.give_back(endpoint.host, endpoint.port, connection)
    return page.decode("utf-8", "replace") if connection.status == 200 else ""
