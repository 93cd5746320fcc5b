"""Where webhooks may go: nowhere inside, whatever name or redirect leads there."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from django.utils import timezone

from notices import targets, tasks
from notices.targets import TargetRefused
from scheduler.models.notices import NoticeDelivery
from scheduler.operations import notices as operations
from tests.notices.conftest import at_once, channel, person


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:8000/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0/",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
    ],
)
def test_inside_is_refused(url):
    with pytest.raises(TargetRefused) as refused:
        targets.resolve(url)
    assert refused.value.code in ("forbidden_network", "unknown_host")


@pytest.mark.parametrize(
    "url",
    ["", "ftp://example.org/", "http://", "file:///etc/passwd", "http://u:p@example.org/",
     "http://example.org:99999/", "http://example.org/\r\nHost: x", "gopher://example.org/"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    with pytest.raises(TargetRefused, match="bad_url"):
        targets.parse(url)


def test_a_setting_allows_a_network_and_no_other(settings):
    settings.WEBHOOK_NETWORKS = ["10.0.0.0/8"]
    assert targets.is_allowed(ipaddress.ip_address("10.1.2.3"))
    assert not targets.is_allowed(ipaddress.ip_address("192.168.0.1"))
    assert not targets.is_allowed(ipaddress.ip_address("127.0.0.1"))
    assert targets.is_allowed(ipaddress.ip_address("93.184.216.34"))


def answers(*numbers):
    """Return a name server that answers so, one after the other, the last for ever."""
    left = list(numbers)

    def look_up(host, port, **_):
        number = left.pop(0) if len(left) > 1 else left[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, port))]

    return look_up


def test_the_number_that_was_checked_is_the_one_that_is_connected_to(monkeypatch):
    # Given a name that stands for a public number when it is looked up, and for this machine after
    monkeypatch.setattr(targets.socket, "getaddrinfo", answers("93.184.216.34", "127.0.0.1"))
    found = targets.resolve("https://rebind.example.org/x?y=1")
    # Then the address to connect to has the number, and the name only where it is told
    assert found.url == "https://93.184.216.34:443/x?y=1"
    assert found.host_header == "rebind.example.org"
    with pytest.raises(TargetRefused, match="forbidden_network"):
        targets.resolve("https://rebind.example.org/")


def test_one_number_inside_is_enough_to_refuse(monkeypatch):
    both = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80)),
    ]
    monkeypatch.setattr(targets.socket, "getaddrinfo", lambda *_args, **_more: both)
    with pytest.raises(TargetRefused, match="forbidden_network"):
        targets.resolve("http://both.example.org/")


def told_once(user):
    operations.tell(
        username=user.username, code="idle_stop", params={"name": "x"}, now=timezone.now()
    )
    tasks.deliver()
    return NoticeDelivery.objects.get()


@pytest.mark.django_db
def test_a_name_that_leads_inside_later_gets_nothing(place, receiver, settings):
    # Given a channel that was set while its network was allowed
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "webhook", url=receiver.url, secret="s")
    settings.WEBHOOK_NETWORKS = []
    row = told_once(ann)
    assert (row.status, row.error) == ("dead", "forbidden_network")
    assert receiver.got == []


@pytest.mark.django_db
def test_a_redirect_is_not_followed(place, receiver):
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "webhook", url=f"{receiver.url}/hook", secret="s")
    receiver.statuses = [302]
    row = told_once(ann)
    assert "answered 302" in row.error
    assert [path for path, _headers, _body in receiver.got] == ["/hook"]
