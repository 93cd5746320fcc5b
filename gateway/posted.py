"""A service's own number, posted by a replica or by what watches it, instead of being read from a page."""

from __future__ import annotations

import json
from urllib.parse import unquote

from gateway import gauges
from gateway.desk import Desk, now_us
from gateway.errors import BadRequest, TooLarge, WrongMethod
from gateway.exchange import Exchange

PREFIX = "/v1/services/"
SUFFIX = "/metric"
MOST_BYTES = 4096


def names_of(path: str) -> tuple[str, str] | None:
    """Return (project, name) of a path /v1/services/PROJECT/NAME/metric, or None."""
    parts = path.removeprefix(PREFIX).removesuffix(SUFFIX).split("/")
    if not path.startswith(PREFIX) or not path.endswith(SUFFIX) or len(parts) != 2:
        return None
    return unquote(parts[0]), unquote(parts[1])


async def take(*, exchange: Exchange, desk: Desk) -> None:
    """Note one reading: a JSON object with the metric's ``name`` and its ``value``.

    Raises:
        WrongMethod, TooLarge, BadRequest.
    """
    if exchange.method != "POST":
        raise WrongMethod(f"Use POST for {exchange.path}.")
    body = b""
    async for chunk in exchange.chunks():
        body += chunk
        if len(body) > MOST_BYTES:
            raise TooLarge(f"The body is larger than {MOST_BYTES} bytes.")
    desk.demand.read_gauge(_value_milli(body, desk), now_us=now_us())
    await exchange.answer_json({"accepted": True})


def _value_milli(body: bytes, desk: Desk) -> int:
    try:
        content = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"The body is not valid JSON: {error}") from error
    wanted = desk.route.gauge_name
    if not wanted:
        raise BadRequest(f"{desk.route.name} does not scale by a number of its own.")
    if not isinstance(content, dict) or content.get("name") != wanted:
        raise BadRequest(f'Give the number\'s name: "name": "{wanted}".', param="name")
    value = content.get("value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, int | float) and is_number and 0 <= value <= gauges.MOST:
        return int(value * 1000)
    raise BadRequest('Give the number as "value", not negative.', param="value")
