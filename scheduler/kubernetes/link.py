"""The Kubernetes API over HTTP by the official client; no other file knows that client.

It finds the server, its certificates and our token; the objects of its own are left aside.
Objects are plain dictionaries as the API writes them: what a newer server adds passes through unread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from scheduler.engines.base import EngineError, EngineUnreachable

log = logging.getLogger(__name__)

Json = dict[str, Any]
CALL_TIMEOUT_S = 10.0
_LONGEST_MESSAGE = 500
_CALL = (CALL_TIMEOUT_S, CALL_TIMEOUT_S)


class NotThere(EngineError):
    """There is no such object."""


class Conflict(EngineError):
    """It is there already, or has changed since it was read."""


class Gone(EngineError):
    """The server no longer knows what happened since that resource version."""


class Refused(EngineError):
    """The server will not have it so, now or later."""


class ApiLink:
    """Calls to one API server. Safe to use from several threads."""

    def __init__(self, *, kubeconfig: str = "", context: str = "", url: str = "") -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._url = url
        self._client: Any = None

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Json | None = None,
        body: Json | None = None,
    ) -> Json:
        """Call the API and return the object that it answers with.

        Raises:
            NotThere, Conflict, Gone, Refused: what the server says.
            EngineUnreachable: it says nothing, or can't do it now.
        """
        with self._open(method, path, query or {}, body, timeout=_CALL) as answer:
            said = _read(answer)
        try:
            found: Json = json.loads(said or b"{}")
        except ValueError as error:  # such as the page of a proxy
            raise EngineUnreachable(f"no answer of Kubernetes: {_message(said)}") from error
        return found

    def watch(self, path: str, *, query: Json, timeout_s: int) -> Iterator[Json]:
        """Give the events of a watch until the server ends it."""
        asked = {**query, "watch": "true", "timeoutSeconds": timeout_s}
        with self._open(
            "GET", path, asked, None, timeout=(CALL_TIMEOUT_S, timeout_s + 5)
        ) as answer:
            rest = b""
            for piece in _pieces(answer):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)

    def read(self, path: str, *, query: Json) -> Iterator[bytes]:
        """Give the bytes of an answer that is no object, in pieces."""
        with self._open("GET", path, query, None, timeout=_CALL) as answer:
            yield from _pieces(answer)

    def _open(self, method: str, path: str, query: Json, body: Json | None, *, timeout: Any) -> Any:
        import urllib3
        import urllib3.exceptions

        client = self._connect()
        settings = client.configuration
        headers = {"Accept": "application/json, text/plain;q=0.5"}
        if body is not None:
            kind = "merge-patch+json" if method == "PATCH" else "json"
            headers["Content-Type"] = f"application/{kind}"
        # Read at each call: the token of a service account is replaced every hour.
        for way in settings.auth_settings().values():
            if way["in"] == "header":
                headers[way["key"]] = way["value"]
        connect_s, read_s = timeout
        try:
            answer = client.rest_client.pool_manager.request(
                method,
                f"{settings.host}{path}" + (f"?{urlencode(query)}" if query else ""),
                headers=headers,
                body=None if body is None else json.dumps(body).encode(),
                timeout=urllib3.Timeout(connect=connect_s, read=read_s),
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise EngineUnreachable(f"Kubernetes does not answer: {error}") from error
        if answer.status < 300:
            return _Open(answer)
        with _Open(answer):
            said = _message(_read(answer))
        raise _error(answer.status, said)

    def _connect(self) -> Any:
        if self._client is None:
            try:
                from kubernetes import client, config
            except ImportError as error:
                raise EngineUnreachable(
                    "the Kubernetes client is not installed here: start with TIDEGATE_KUBERNETES_IMAGE set"
                ) from error
            given = client.Configuration()
            try:
                if self._url:
                    given.host = self._url
                elif self._kubeconfig:
                    config.load_kube_config(
                        config_file=self._kubeconfig,
                        context=self._context or None,
                        client_configuration=given,
                    )
                else:
                    config.load_incluster_config(client_configuration=given)
            except (config.ConfigException, OSError) as error:
                raise EngineUnreachable(
                    f"no way to Kubernetes: {error}. Inside of a pod its service account is used; "
                    "elsewhere set TIDEGATE_KUBERNETES_CONFIG to a kubeconfig file"
                ) from error
            given.retries = False
            given.connection_pool_maxsize = 16
            self._client = client.ApiClient(given)
        return self._client


class _Open:
    """An answer whose connection is given back, or closed where it was not read to its end."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __enter__(self) -> Any:
        return self._answer

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._answer.close()
        self._answer.release_conn()


def _read(answer: Any) -> bytes:
    return b"".join(_pieces(answer))


def _pieces(answer: Any) -> Iterator[bytes]:
    """Give what has come, as it comes."""
    import urllib3.exceptions

    try:
        while piece := answer.read1(64 * 1024):
            yield piece
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise EngineUnreachable(f"Kubernetes fell silent: {error}") from error


def _message(data: bytes) -> str:
    try:
        said = json.loads(data)
    except ValueError:
        return data[:_LONGEST_MESSAGE].decode(errors="replace")
    return (
        str(said.get("message", said))[:_LONGEST_MESSAGE] if isinstance(said, dict) else str(said)
    )


def _error(status: int, said: str) -> EngineError:
    match status:
        case 404:
            return NotThere(said)
        case 409:
            return Conflict(said)
        case 410:
            return Gone(said)
        case 400 | 422:
            return Refused(said)
        case 403 if "exceeded quota" not in said and "cannot " not in said:
            return Refused(said)  # by an admission rule; what we lack rights for may be mended
        case _:
            return EngineUnreachable(f"Kubernetes says {status}: {said}")
