"""Who may open a socket: our own pages, by people who are signed in, and only as long as they are."""

from __future__ import annotations

import json
import logging

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.urls import reverse

from access import people, sessions
from access.models import Session, User
from dashboard import live_hub
from dashboard.asgi import application
from dashboard.routing import websocket_urlpatterns
from dashboard.socket_door import foreign_origin
from scheduler.operations.authority import SYSTEM
from tests.dashboard.conftest import NOON, page_headers

pytestmark = pytest.mark.django_db(transaction=True)

SOCKETS = [f"/{pattern.pattern}" for pattern in websocket_urlpatterns]


def deactivate(admin):
    User.objects.filter(pk=admin.pk).update(is_active=False)


def sign_out(admin):
    sessions.end_sessions(user=admin)


def change_password(admin):
    # As the command line does it: the session's row stays
    admin.set_password("harbour-lantern-72")
    admin.save()


#: What the handshake brings, or what happened before it, and what the log says.
REFUSED = {
    "evil": ({"origin": "http://evil.example"}, None, "an Origin that is another site"),
    "none": ({"origin": ""}, None, "no Origin"),
    "null": ({"origin": "null"}, None, "an Origin that is no address of a page"),
    "port": ({"origin": "http://localhost:9999"}, None, "an Origin that is another site"),
    "rebound": (
        {"origin": "http://evil.example", "host": "evil.example"},
        None,
        "a host name that is not this server's",
    ),
    "deactivated": ({}, deactivate, "nobody is signed in"),
    "signed out": ({}, sign_out, "nobody is signed in"),
    "other password": ({}, change_password, "nobody is signed in"),
    "no cookie": ({"cookie": False}, None, "nobody is signed in"),
}


async def opened(path, headers):
    wire = WebsocketCommunicator(application, path, headers=headers)
    connected, _ = await wire.connect(timeout=10)
    return wire, connected


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("how", sorted(REFUSED))
async def test_b38_a_handshake_that_is_not_of_our_own_page_is_refused_before_it_is_accepted(
    scene, admin, caplog, how, path
):
    """Given a signed-in admin, when a page that is not ours opens a socket with their cookie."""
    brings, happened, why = REFUSED[how]
    has_cookie = brings.get("cookie", True)
    named = {name: value for name, value in brings.items() if name != "cookie"}
    headers = await database_sync_to_async(page_headers)(admin, **named)
    headers = [each for each in headers if has_cookie or each[0] != b"cookie"]
    if happened:
        await database_sync_to_async(happened)(admin)
    with caplog.at_level(logging.WARNING):
        _wire, connected = await opened(path, headers)
    # Then it is no socket, and one line says why, without the cookie
    assert not connected
    lines = [record for record in caplog.records if record.message == "socket.refused"]
    assert [line.why for line in lines] == [why]
    secret = dict(headers).get(b"cookie", b"no cookie").decode()
    assert all(secret not in str(vars(line)) for line in lines)


@pytest.mark.parametrize("path", SOCKETS)
async def test_our_own_page_is_let_in(scene, admin, path):
    headers = await database_sync_to_async(page_headers)(admin)
    wire, connected = await opened(path, headers)
    assert connected
    await wire.disconnect()


async def test_b38_a_token_in_the_address_lets_nobody_in(scene, admin):
    headers = [(b"origin", b"http://localhost"), (b"host", b"localhost")]
    _wire, connected = await opened("/ws/live/?token=tgat_x&sessionid=x", headers)
    assert not connected


def test_b38_our_own_origin_works_behind_the_documented_proxy(settings):
    """Given HTTPS at a proxy that hands another host name on, then the page's origin is trusted."""
    settings.ALLOWED_HOSTS = ["gpu.example.org", "127.0.0.1"]
    assert foreign_origin(origin="https://gpu.example.org", host="127.0.0.1:8000")
    settings.CSRF_TRUSTED_ORIGINS = ["https://gpu.example.org"]
    assert not foreign_origin(origin="https://gpu.example.org", host="127.0.0.1:8000")
    assert foreign_origin(origin="http://gpu.example.org", host="127.0.0.1:8000")
    # One that keeps the host name needs no setting
    settings.CSRF_TRUSTED_ORIGINS = []
    assert not foreign_origin(origin="https://gpu.example.org", host="gpu.example.org")
    assert not foreign_origin(origin="https://gpu.example.org:8443", host="gpu.example.org:8443")
    settings.CSRF_TRUSTED_ORIGINS = ["https://*.example.org"]
    assert not foreign_origin(origin="https://a.example.org", host="127.0.0.1:8000")
    assert foreign_origin(origin="https://aexample.org", host="127.0.0.1:8000")


# --- Sockets that are open when a sign-in ends ----------------------------------------------------


def end_by_admin(user):
    people.change_user(user_id=user.pk, email="", is_active=False, authority=SYSTEM, now=NOON)


def set_by_admin(user):
    people.set_password(user_id=user.pk, password="harbour-lantern-72", authority=SYSTEM, now=NOON)


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("end", [end_by_admin, set_by_admin, change_password, sign_out])
async def test_a_socket_ends_with_the_sign_in_it_came_with(
    scene, researcher, monkeypatch, end, path
):
    monkeypatch.setattr(live_hub, "RIGHTS_EVERY_S", 0.0)
    headers = await database_sync_to_async(page_headers)(researcher)
    wire, connected = await opened(path, headers)
    assert connected
    if "live" in path:
        await wire.send_json_to({"op": "sub", "topics": ["map"]})
    await wire.receive_output(timeout=10)
    await database_sync_to_async(end)(researcher)
    live_hub.hub()._changed.set()
    while (said := await wire.receive_output(timeout=20))["type"] != "websocket.close":
        assert said["type"] == "websocket.send"
    assert said["code"] == 4401


async def test_another_sign_in_of_the_same_person_goes_on(scene, researcher, monkeypatch):
    monkeypatch.setattr(live_hub, "RIGHTS_EVERY_S", 0.0)
    first = await database_sync_to_async(page_headers)(researcher)
    second = await database_sync_to_async(page_headers)(researcher)
    wires = [(await opened("/ws/live/", headers))[0] for headers in (first, second)]
    key = dict(second)[b"cookie"].decode().split("=")[1]
    await database_sync_to_async(sessions.end_sessions)(user=researcher, except_key=key)
    live_hub.hub()._changed.set()
    while (said := await wires[0].receive_output(timeout=20))["type"] != "websocket.close":
        continue
    assert said["code"] == 4401
    await wires[1].send_json_to({"op": "resync"})
    while json.loads((await wires[1].receive_output(timeout=20))["text"])["t"] != "snap":
        continue
    await wires[1].disconnect()
    assert await Session.objects.acount() == 1


async def test_polling_ends_with_the_sign_in_too(scene, researcher, async_client):
    await database_sync_to_async(async_client.force_login)(researcher)
    assert (await async_client.get(reverse("live"))).status_code == 200
    await database_sync_to_async(change_password)(researcher)
    assert (await async_client.get(reverse("live"))).status_code == 401
