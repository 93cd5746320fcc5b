"""The few words of Redis that ``up`` needs: PING and GET, over one short connection each."""

from __future__ import annotations

import socket
import ssl
from contextlib import closing
from urllib.parse import unquote, urlsplit

TIMEOUT_S = 2.0


class RedisAway(Exception):
    """Redis does not answer, or answers with an error."""


def ping(url: str) -> bool:
    try:
        return ask(url, "PING") == "PONG"
    except RedisAway:
        return False


def get_integer(url: str, key: str) -> int | None:
    """Return the whole number under ``key``; None where there is none."""
    value = ask(url, "GET", key)
    if value is None:
        return None
    try:
        return int(float(value))
    except ValueError:
        return None


def ask(url: str, *words: str) -> str | None:
    """Send one command and return its answer."""
    try:
        with closing(_connect(url)) as connection:
            reader = connection.makefile("rb")
            for command in (*_opening(url), words):
                connection.sendall(_encoded(command))
                answer = _read_answer(reader.readline(), reader.read)
    except OSError as error:
        raise RedisAway(str(error)) from error
    return answer


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT_S)
        connection.connect(unquote(parts.path))
        return connection
    host = parts.hostname or "127.0.0.1"
    connection = socket.create_connection((host, parts.port or 6379), timeout=TIMEOUT_S)
    if parts.scheme == "rediss":
        return ssl.create_default_context().wrap_socket(connection, server_hostname=host)
    return connection


def _opening(url: str) -> list[tuple[str, ...]]:
    parts = urlsplit(url)
    commands: list[tuple[str, ...]] = []
    if parts.password:
        named = (unquote(parts.username),) if parts.username else ()
        commands.append(("AUTH", *named, unquote(parts.password)))
    database = parts.path.strip("/") if parts.scheme != "unix" else ""
    if database.isdigit() and database != "0":
        commands.append(("SELECT", database))
    return commands


def _encoded(words: tuple[str, ...]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word.encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def _read_answer(line: bytes, read: object) -> str | None:
    if not line.endswith(b"\r\n"):
        raise RedisAway("the connection ended")
    kind, text = line[:1], line[1:-2].decode()
    if kind == b"-":
        raise RedisAway(text)
    if kind in (b"+", b":"):
        return text
    if kind == b"$" and text != "-1":
        data: bytes = read(int(text) + 2)  # type: ignore[operator]
        return data[:-2].decode("utf-8", "replace")
    return None
