"""The REST API as Python calls. Every refusal of the server is an ApiError with its code and fields."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

Json = dict[str, Any]
PAGE = 500
TIMEOUT_S = 30.0
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that is wrong, and the way out."""

    field: str
    code: str
    message: str


class ApiError(Exception):
    """The server refused. ``code`` stays the same from version to version; ``message`` is for people."""

    def __init__(self, status: int, code: str, message: str, problems: list[Problem]) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.problems = problems


class NotSignedIn(ApiError):
    """No token, or one that is no longer in force."""


class Unreachable(Exception):
    """The server does not answer at its address."""


class Client:
    """One server and one token.

    ``transport`` is httpx's, for tests. Calls raise ApiError, NotSignedIn or Unreachable.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        language: str = "",
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if language:
            headers["Accept-Language"] = language
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers=headers,
            timeout=timeout_s,
            transport=transport,
        )

    def __enter__(self) -> Client:
        """Return itself; its connections are closed at the end."""
        return self

    def __exit__(self, *_about: object) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    # --- Calls --------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Call an endpoint and return its answer, None where it has none."""
        return self._decoded(self._send(method, path, query, body, headers))

    def call_patiently(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None
    ) -> Any:
        """Call an endpoint, and again while the server does not answer, for up to a minute."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.call(method, path, query=query)
            except Unreachable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def items(self, path: str, **query: Any) -> Iterator[Json]:
        """Yield all items of a list, page after page."""
        wanted: Json = {name: value for name, value in query.items() if value is not None}
        wanted.setdefault("limit", PAGE)
        while True:
            page = self.call("GET", path, query=wanted)
            yield from page["items"]
            if page["next"] is None:
                return
            wanted["after"] = page["next"]

    def text(self, path: str, *, query: Mapping[str, Any] | None = None) -> Iterator[str]:
        """Yield a download piece by piece."""
        try:
            with self._http.stream("GET", path, params=_flat(query)) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refusal(answer)
                yield from answer.iter_text()
        except httpx.TransportError as error:
            raise Unreachable(f"{self.url} does not answer: {error}") from error

    def me(self) -> Json:
        """Return who the token is."""
        found: Json = self.call("GET", "/me")
        return found

    def submit(self, submission: Mapping[str, Any], *, key: str = "") -> Json:
        """Submit a workload. Sent again with the same ``key``, it is there once."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        made: Json = self.call("POST", "/workloads", body=dict(submission), headers=headers)
        return made

    def submit_all(self, submissions: Sequence[Mapping[str, Any]]) -> list[Json]:
        """Submit several workloads, all of them or none."""
        body = {"workloads": [dict(each) for each in submissions]}
        made: list[Json] = self.call("POST", "/workloads/batch", body=body)
        return made

    def preview(self, submission: Mapping[str, Any]) -> Json:
        """Return what the next cycle would do with a submission; nothing is written."""
        found: Json = self.call("POST", "/workloads/preview", body=dict(submission))
        return found

    def workload(self, workload_id: int) -> Json:
        """Return one workload in full."""
        found: Json = self.call("GET", f"/workloads/{workload_id}")
        return found

    def find_workload(self, name: str) -> Json:
        """Return the workload of that id, "name", or "project/name".

        Raises:
            ApiError: there is none (not_found), or the name alone is not enough (ambiguous).
        """
        if name.isdigit():
            return self.workload(int(name))
        project, _, own = name.rpartition("/")
        found = [
            each
            for each in self.items("/workloads", q=own)
            if each["name"] == own and project in ("", each["project"])
        ]
        if not found:
            raise ApiError(404, "not_found", f"There is no workload {name}.", [])
        if len(found) > 1:
            known = ", ".join(f"{each['project']}/{each['name']}" for each in found)
            raise ApiError(422, "ambiguous", f"Say which: {known}.", [])
        return self.workload(int(found[0]["id"]))

    def find_project(self, name: str) -> Json:
        """Return the project of that name.

        Raises:
            ApiError: there is none.
        """
        projects = list(self.items("/projects"))
        for each in projects:
            if name in (each["name"], str(each["id"])):
                return each
        known = ", ".join(each["name"] for each in projects) or "none"
        raise ApiError(404, "not_found", f"There is no project {name}. Known are: {known}.", [])

    def log(self, workload_id: int, *, replica: int = 0, offset: int | None = None) -> Json:
        """Return a piece of what a replica printed; the end of it where ``offset`` is None.

        A server that restarts meanwhile is waited for.
        """
        query: Json = {"replica": replica}
        if offset is not None:
            query["offset"] = offset
        found: Json = self.call_patiently("GET", f"/workloads/{workload_id}/log", query=query)
        return found

    # --- Inside -------------------------------------------------------------------------------

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: object,
        headers: Mapping[str, str] | None,
    ) -> httpx.Response:
        try:
            return self._http.request(
                method, path, params=_flat(query), json=body, headers=dict(headers or {})
            )
        except httpx.TransportError as error:
            raise Unreachable(f"{self.url} does not answer: {error}") from error

    def _decoded(self, answer: httpx.Response) -> Any:
        if answer.is_error:
            raise _refusal(answer)
        if answer.status_code == 204 or not answer.content:
            return None
        try:
            return answer.json()
        except json.JSONDecodeError as error:
            raise Unreachable(f"{self.url} is no Tidegate: it answers no JSON.") from error


def _flat(query: Mapping[str, Any] | None) -> httpx.QueryParams:
    flat: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in (query or {}).items():
        values = value if isinstance(value, list | tuple) else [value]
        flat += [(name, str(each)) for each in values if each is not None]
    return httpx.QueryParams(flat)


def _refusal(answer: httpx.Response) -> Exception:
    try:
        told = answer.json()
        problems = [
            Problem(each["field"], each["code"], each["message"]) for each in told["problems"]
        ]
        code, message = str(told["code"]), str(told["message"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return ApiError(
            answer.status_code, "unreadable", f"The server answers {answer.status_code}.", []
        )
    kind = NotSignedIn if answer.status_code == 401 else ApiError
    return kind(answer.status_code, code, message, problems)
