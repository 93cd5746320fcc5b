"""The product's pages as a browser gets them, signed in as a user made for the run.

The user is a viewer of the cluster and of the scratch departments, which nobody else sees. It has a
random password, and is removed with its session when the run ends.
"""

from __future__ import annotations

import html
import json
import logging
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.shortcuts import resolve_url
from django.urls import reverse
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin

log = logging.getLogger(__name__)

USER_PREFIX = "verify-"
#: A page on a busy machine may take its time; that is not what is verified.
CALL_TIMEOUT_S = 90
#: Pauses double from half a second on.
CONNECT_AGAIN = 7
READ_AGAIN = 2
_SCRIPT = re.compile(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
_NOT_SHOWN = re.compile(r"<(script|style|template)\b.*?</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


class PageFailed(Exception):
    """A page did not answer, or not with what it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLine:
    """One line of the Overview's waiting list."""

    name: str
    why: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage:
    """The Overview of one pool, as it was shown."""

    parts: Mapping[str, Any]

    @property
    def held_mgpu(self) -> int:
        """The tile of what is allocated."""
        return int(self.parts["kpi"]["held"])

    @property
    def idle_mgpu(self) -> int:
        """The tile of what is allocated and idle."""
        return int(self.parts["kpi"]["idle"])

    @property
    def borrowed_mgpu(self) -> int:
        """The tile of what is borrowed."""
        return int(self.parts["kpi"]["borrowed"])

    @property
    def free_mgpu(self) -> int:
        """The tile of what is free."""
        return int(self.parts["kpi"]["free"] or 0)

    @property
    def waiting(self) -> tuple[WaitingLine, ...]:
        """The waiting list, by name."""
        lines = (
            WaitingLine(
                name=row["name"], why="".join(span[0] for span in row["why"]), code=row["code"]
            )
            for row in self.parts["wait"]
        )
        return tuple(sorted(lines, key=lambda line: line.name))

    def waits(self, prefix: str = "") -> str:
        """Return the names of what waits."""
        return ", ".join(w.name for w in self.waiting if w.name.startswith(prefix)) or "none"

    def queue(self, name: str) -> Mapping[str, Any]:
        """Return a project's or department's row of the quota panel."""
        rows: Sequence[Mapping[str, Any]] = self.parts["quota"]["rows"]
        return next((row for row in rows if row["name"] == name), {})

    def held_by(self, *names: str) -> int:
        """Return what queues hold together."""
        return sum(int(self.queue(name).get("held") or 0) for name in names)

    @property
    def workload_names(self) -> str:
        """The names of what is on the map."""
        return ", ".join(sorted(str(entry[0]) for entry in self.parts["wl"].values())) or "none"


class Patient(httpx.HTTPTransport):
    """Waits about half a minute for a web server that is begun anew, and reads again what it cut short."""

    def __init__(self) -> None:
        super().__init__(retries=CONNECT_AGAIN)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; one that only reads is sent again where the server was lost in the middle."""
        for _lost in range(READ_AGAIN if request.method == "GET" else 0):
            try:
                return self._whole(request)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                log.info("pages.read_again", extra={"path": request.url.path})
        return self._whole(request)

    def _whole(self, request: httpx.Request) -> httpx.Response:
        """Return an answer whose body is there too."""
        answer = super().handle_request(request)
        answer.read()
        return answer


class Browser:
    """One signed-in reader. Every call has a timeout."""

    def __init__(self, *, client: httpx.Client) -> None:
        self._client = client

    def overview(self, pool_name: str) -> OverviewPage:
        """Return the Overview of a pool.

        Raises:
            PageFailed: it does not answer, or shows no pool.
        """
        text = _answered(self.read("overview", pool=pool_name))
        for script in _SCRIPT.findall(text):
            state = json.loads(script)
            if isinstance(state, dict) and "kpi" in state.get("parts", {}):
                return OverviewPage(parts=state["parts"])
        raise PageFailed(f"the Overview of {pool_name} shows no pool")

    def workload(self, workload_id: int) -> str:
        """Return the words of a workload's page."""
        text = _NOT_SHOWN.sub(" ", _answered(self.read("workload", workload_id=workload_id)))
        return " ".join(html.unescape(_TAG.sub(" ", text)).split())

    def get(self, path: str, params: Mapping[str, str | int]) -> httpx.Response:
        """Return what an address answers.

        Raises:
            PageFailed: nothing, or not what it is for.
        """
        try:
            answer = self._client.get(path, params=params)
        except httpx.HTTPError as error:
            raise PageFailed(f"{path}: {error}") from error
        _answered(answer)
        return answer

    def listen(
        self, path: str, params: Mapping[str, str | int], *, messages: int, within_s: float
    ) -> list[dict[str, Any]]:
        """Return the first messages of a WebSocket, fewer where the time is over.

        Raises:
            PageFailed: it does not open.
        """
        base = self._client.base_url.copy_with(scheme="ws")
        url = base.join(path).copy_merge_params(params)
        cookies = "; ".join(f"{name}={value}" for name, value in self._client.cookies.items())
        origin = str(self._client.base_url).rstrip("/")
        found: list[dict[str, Any]] = []
        try:
            with connect(
                str(url), additional_headers={"Cookie": cookies}, origin=Origin(origin)
            ) as socket:
                deadline = time.monotonic() + within_s
                while len(found) < messages and time.monotonic() < deadline:
                    found.append(json.loads(socket.recv(timeout=within_s)))
        except TimeoutError:
            return found
        except (OSError, WebSocketException) as error:
            raise PageFailed(f"{path}: {error}") from error
        return found

    def send(self, page: str, fields: Mapping[str, str], *, pool: str = "") -> httpx.Response:
        """Post a form as the browser would; return what it answers in the end."""
        path = reverse(page)
        form = {**fields, "csrfmiddlewaretoken": self._client.cookies[settings.CSRF_COOKIE_NAME]}
        try:
            return self._client.post(path, data=form, params={"pool": pool} if pool else {})
        except httpx.HTTPError as error:
            raise PageFailed(f"{path}: {error}") from error

    def read(
        self, page: str, *more: object, workload_id: int | None = None, pool: str = ""
    ) -> httpx.Response:
        """Return what a page answers, whatever it is; ``more`` stands in its address."""
        path = reverse(page, args=more if workload_id is None else [workload_id])
        try:
            return self._client.get(path, params={"pool": pool} if pool else {})
        except httpx.HTTPError as error:
            raise PageFailed(f"{path}: {error}") from error


def _answered(answer: httpx.Response) -> str:
    if answer.status_code != httpx.codes.OK:
        raise PageFailed(f"{answer.url.path}: answered {answer.status_code}")
    return answer.text


def signed_in(
    *, url: str, run: str, department_ids: Sequence[int]
) -> AbstractContextManager[Browser]:
    """Make the user of a run, sign it in at the product's own form, remove both afterwards."""
    rules: list[dict[str, object]] = [{"role": "viewer", "cluster": True}]
    rules += [{"role": "viewer", "department_id": each} for each in department_ids]
    return signed_in_as(url=url, name=f"{USER_PREFIX}{run}", rules=rules)


@contextmanager
def signed_in_as(
    *, url: str, name: str, rules: Sequence[Mapping[str, object]]
) -> Iterator[Browser]:
    """Make a user with these access rules, sign it in, remove it with its session afterwards."""
    password = secrets.token_urlsafe(24)
    user = get_user_model().objects.create_user(username=name, password=password)
    given = apps.get_model("access", "AccessRule").objects
    client = httpx.Client(
        base_url=url,
        timeout=CALL_TIMEOUT_S,
        headers={"Accept-Language": "en"},
        follow_redirects=True,
        transport=Patient(),
    )
    try:
        for rule in rules:
            given.create(user=user, **rule)
        _sign_in(client, name=name, password=password)
        yield Browser(client=client)
    finally:
        user.delete()  # and with it its session
        client.close()


def remove_users() -> int:
    """Remove what a run that was killed left of users."""
    return int(get_user_model().objects.filter(username__startswith=USER_PREFIX).delete()[0])


def _sign_in(client: httpx.Client, *, name: str, password: str) -> None:
    path = resolve_url(settings.LOGIN_URL)
    try:
        client.get(path).raise_for_status()
        form = {
            "username": name,
            "password": password,
            "csrfmiddlewaretoken": client.cookies[settings.CSRF_COOKIE_NAME],
        }
        client.post(path, data=form).raise_for_status()
    except (httpx.HTTPError, KeyError) as error:
        raise PageFailed(f"{path}: {error}") from error
    if settings.SESSION_COOKIE_NAME not in client.cookies:
        raise PageFailed(f"{path}: the sign-in was refused")
