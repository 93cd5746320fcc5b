"""A workspace is opened through the product: by a ticket, at a host of its own, with the product's rights."""

from __future__ import annotations

import asyncio
import base64
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from access.models import AccessRule, User
from access.roles import Role
from access.sessions import end_sessions, mark_of
from dashboard import workspace_door
from scheduler import models
from scheduler.engines.base import ReplicaKey
from scheduler.operations import replica_tokens
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db(transaction=True)
TINY = Path(__file__).parent / "workspace.py"
PRODUCT = "https://gpus.example.org"


class AtHome(httpx.AsyncHTTPTransport):
    """Finds names below localhost at 127.0.0.1, as browsers do."""

    async def handle_async_request(self, request):
        url = request.url
        near = httpx.Request(
            request.method,
            url.copy_with(host="127.0.0.1"),
            headers={**request.headers, "host": f"{url.host}:{url.port}"},
            stream=request.stream,
            extensions=request.extensions,
        )
        return await super().handle_async_request(near)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def workspace(scene):
    """A workspace that runs and listens, with a real process behind it."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(TINY), str(port)])
    replica = models.Replica.objects.filter(
        phase="running", workload__project__name="nlp-lab"
    ).first()
    models.Workload.objects.filter(pk=replica.workload_id).update(kind="workspace")
    models.Replica.objects.filter(pk=replica.pk).update(host="127.0.0.1", port=port)
    _wait_for(port)
    yield models.Replica.objects.get(pk=replica.pk)
    process.terminate()
    process.wait(timeout=10)


@pytest.fixture
def door(workspace, settings):
    """The product's door, served at two names of this machine."""
    from dashboard.asgi import application

    port = free_port()
    settings.WORKSPACE_URL = f"http://localhost:{port}"
    settings.PRODUCT_URL = PRODUCT
    server = uvicorn.Server(
        uvicorn.Config(
            application, host="127.0.0.1", port=port, log_level="warning", lifespan="off"
        )
    )
    return server, port


def _wait_for(port):
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens at {port}")


def serve(door, visit, *, at="localhost"):
    """Run ``visit`` while the door is open, with a browser that is at the host ``at``."""

    async def run():
        server, port = door
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.02)
        try:
            address = f"http://{at}:{port}"
            async with httpx.AsyncClient(base_url=address, transport=AtHome()) as browser:
                await visit(browser, port)
        finally:
            server.should_exit = True
            await serving

    asyncio.run(run())


def b64(part):
    """Return what a part of a signed text says."""
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def ticket_for(client, workspace):
    answer = client.post(f"/workloads/{workspace.workload_id}/open")
    assert answer.status_code == 200
    return answer.context["ticket"], answer


def test_a_workspace_is_opened_used_and_closed_with_the_sign_in(
    client, workspace, door, monkeypatch
):
    user = person("lin", Role.RESEARCHER, project="nlp-lab")
    client.force_login(user)
    ticket, answer = ticket_for(client, workspace)
    # The page may post to the workspaces' host and nowhere else new
    own = f"w{workspace.workload_id}.localhost"
    assert f"form-action 'self' http://{own}:{door[1]}" in answer["Content-Security-Policy"]
    # The ticket does not tell what would open the product itself
    for part in ticket.replace(".", ":").split(":"):
        assert client.session.session_key not in str(b64(part))
    path = f"/workspaces/{workspace.workload_id}/"
    secret = replica_tokens.workspace_secret_of(
        ReplicaKey(replica_id=workspace.pk, attempt=workspace.attempt)
    )

    async def visit(browser, port):
        # Without a ticket there is nothing; with one, it is entered once
        assert (await browser.get(path)).status_code == 404
        entered = await browser.post(f"{path}~enter", data={"ticket": ticket})
        assert (entered.status_code, entered.headers["location"]) == (303, path)
        assert "HttpOnly" in entered.headers["set-cookie"]
        again = await browser.post(f"{path}~enter", data={"ticket": ticket})
        assert again.status_code == 403
        # The workspace gets its secret and cookies of its own, and none of ours
        browser.cookies.set("own", "1", domain=own)
        seen = (await browser.get(f"{path}lab?x=1", headers={"cookie": ""})).status_code
        assert seen == 404  # no cookie, no workspace
        told = (await browser.get(f"{path}lab?x=1")).json()
        assert told["path"] == f"{path}lab"
        assert told["headers"]["authorization"] == f"token {secret}"
        assert "tidegate" not in told["headers"].get("cookie", "")
        # A socket works, from its own origin alone
        jar = {cookie.name: cookie.value for cookie in browser.cookies.jar}
        cookie = f"{workspace_door.COOKIE}={jar[workspace_door.COOKIE]}"
        address = f"ws://{own}:{port}{path}ws"
        near = {"host": "127.0.0.1", "port": port}
        named = {"Cookie": cookie}
        for origin, headers in (
            ("http://evil.example", named),
            (f"http://w{workspace.workload_id + 1}.localhost:{port}", named),
            (None, named),
            (f"http://{own}:{port}", {}),
        ):
            with pytest.raises(InvalidStatus):
                await connect(address, additional_headers=headers, origin=origin, **near)
        inner = await connect(
            address, additional_headers=named, origin=f"http://{own}:{port}", **near
        )
        await inner.send("hello")
        assert await inner.recv() == "echo hello"
        # Neither another workspace's path, nor its host, nor its page takes this one's cookie
        further = workspace.workload_id + 1
        other = await browser.get(f"/workspaces/{further}/", headers=named)
        assert other.status_code == 404
        elsewhere = f"http://w{further}.localhost:{port}{path}"
        assert (await browser.get(elsewhere, headers=named)).status_code == 404
        # The name above them all is the product's other name: it sends home
        home = await browser.get(f"http://localhost:{port}/gpus/")
        assert (home.status_code, home.headers["location"]) == (303, f"{PRODUCT}/gpus/")
        foreign = {**named, "Origin": f"http://w{further}.localhost:{port}"}
        assert (await browser.post(f"{path}lab", headers=foreign)).status_code == 403
        # When the sign-in ends, it is over here too, for the open socket as well
        monkeypatch.setattr(workspace_door, "RIGHT_S", 0.1)
        await asyncio.to_thread(end_sessions, user=user)
        forget_rights()
        assert (await browser.get(path, headers=named)).status_code == 404
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(inner.recv(), 20)

    serve(door, visit, at=own)
    assert models.AuditEntry.objects.filter(action="workspace.open").count() == 1


def test_a_connection_to_a_workspace_is_closed_when_nobody_uses_it_any_more(
    client, workspace, door
):
    from dashboard.asgi import door as own_door

    client.force_login(person("lin", Role.RESEARCHER, project="nlp-lab"))
    ticket, _answer = ticket_for(client, workspace)
    path = f"/workspaces/{workspace.workload_id}/"

    async def visit(browser, _port):
        # Given a guest who has asked for a page, so that the connection is kept
        await browser.post(f"{path}~enter", data={"ticket": ticket})
        assert (await browser.get(path)).status_code == 200
        assert not own_door._upstream.is_empty
        # When nobody asks again, then it is closed
        async with asyncio.timeout(60):
            while not own_door._upstream.is_empty:
                await asyncio.sleep(0.05)

    serve(door, visit, at=f"w{workspace.workload_id}.localhost")


def forget_rights():
    from dashboard.asgi import door

    door.rights.clear()


def test_at_the_workspaces_host_nobody_is_signed_in(client, workspace, door, settings):
    settings.PRODUCT_URL = ""
    client.force_login(User.objects.create_superuser("root-of-tests", password="x-of-tests"))
    cookie = f"tidegate_session={client.cookies['tidegate_session'].value}"

    async def visit(browser, port):
        # Given a page of the workspace that calls the product at its own host, with a sign-in's cookie
        answer = await browser.get("/api/v1/workloads", headers={"Cookie": cookie})
        assert answer.status_code == 401
        # At the product's own host the same cookie is a sign-in
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as product:
            answer = await product.get("/api/v1/workloads", headers={"Cookie": cookie})
            assert answer.status_code == 200
            # And there are no workspaces there
            path = f"/workspaces/{workspace.workload_id}/"
            assert (await product.get(path)).status_code == 404

    serve(door, visit)


def test_who_may_only_look_does_not_open_it(client, workspace, settings):
    settings.WORKSPACE_URL = "http://localhost:1"
    client.force_login(person("lin", Role.VIEWER, project="nlp-lab"))
    answer = client.post(f"/workloads/{workspace.workload_id}/open")
    assert answer.status_code == 302
    # And a ticket of someone whose right has gone since is worth nothing
    guest = workspace_door.Guest(
        user_id=User.objects.get(username="lin").pk,
        session_mark=mark_of(client.session.session_key),
        workload_id=workspace.workload_id,
    )
    assert workspace_door._find(guest) is None
    AccessRule.objects.filter(user__username="lin").update(role=Role.RESEARCHER)
    assert workspace_door._find(guest) is not None
    client.force_login(person("mei", Role.RESEARCHER, project="vision-lab"))
    assert client.post(f"/workloads/{workspace.workload_id}/open").status_code == 404
