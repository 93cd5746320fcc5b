"""A mail server and an HTTP receiver of this process, and people who are told."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from aiosmtpd.controller import Controller
from django.utils import timezone

from access.models import AccessRule, User
from access.roles import Role
from scheduler import models
from scheduler.operations import deliveries
from tests.scheduler.places import article


class Letters:
    """What the mail server took; ``refuses``: how many it does not take first."""

    def __init__(self):
        self.taken = []
        self.refuses = 0

    async def handle_DATA(self, server, session, envelope):
        if self.refuses:
            self.refuses -= 1
            return "451 try again later"
        self.taken.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 taken"


@pytest.fixture
def mail(settings):
    """A mail server on a free port; the product sends through it."""
    letters = Letters()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Controller(letters, hostname="127.0.0.1", port=port)
    server.start()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    settings.DEFAULT_FROM_EMAIL = "tidegate@example.org"
    yield letters
    server.stop()


@dataclass
class Receiver:
    """What came to an HTTP address. ``statuses``: what it answers, one after the other, then 200."""

    url: str = ""
    got: list = field(default_factory=list)
    statuses: list = field(default_factory=list)


@pytest.fixture
def receiver(settings):
    """An HTTP receiver on a free port, which the settings allow."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append((self.path, dict(self.headers), body))
            status = found.statuses.pop(0) if found.statuses else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{found.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def place(db):
    return article()


def person(name, place, *, project="unit-a", role=Role.RESEARCHER, **more):
    user = User.objects.create_user(name, email=f"{name}@example.org", **more)
    AccessRule.objects.create(user=user, role=role, project=place.projects[project])
    return user


class Caller:
    """An authority with a name alone."""

    door = "page"

    def __init__(self, name):
        self.name = name

    def may(self, action, **_):
        return False


def channel(user, type_, **secrets):
    return deliveries.save_channel(
        type=type_,
        shown="",
        secrets=secrets,
        authority=Caller(user.username),
        now=timezone.now(),
    )


def at_once(user):
    """Let a person be told without gathering."""
    return models.NoticeSettings.objects.create(username=user.username, digest_s=0)
