"""The channels: a mail server, a signed webhook, a webhook as Slack takes it."""

from __future__ import annotations

import hashlib
import hmac
import smtplib
from collections.abc import Callable, Mapping
from email.utils import formatdate

import httpx
from django.conf import settings
from django.core.mail import EmailMessage

from access.models import User
from notices import message as messages
from notices.message import Message
from notices.targets import TargetRefused, resolve
from scheduler.core.notices import ChannelType

TIMEOUT_S = 8.0
SHOWN_OF_ANSWER = 120
GONE = 410


class NotTaken(Exception):
    """The receiver did not take it. ``final``: there is no use in trying again."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


def send(*, message: Message, type: str, user: User, secrets: Mapping[str, str], at_s: int) -> None:
    """Send a message; return once it is taken.

    Raises:
        NotTaken: it was not, and why.
    """
    _SENDERS[ChannelType(type)](message, user, secrets, at_s)


def signature(*, secret: str, body: bytes, at_s: int) -> str:
    """Return what proves that a body is ours and when it was sent: ``t=SECONDS,v1=HEX``.

    HEX is HMAC-SHA256 with the secret over the seconds, a dot, and the body.
    """
    signed = f"{at_s}.".encode() + body
    return f"t={at_s},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def _email(message: Message, user: User, secrets: Mapping[str, str], at_s: int) -> None:
    if not settings.EMAIL_HOST:
        raise NotTaken("no mail server is set", final=True)
    if not user.email:
        raise NotTaken("the account has no mail address", final=True)
    domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip("> ") or "localhost"
    mail = EmailMessage(
        subject=f"[Tidegate] {message.subject}",
        body=message.text,
        to=[user.email],
        headers={
            "Message-ID": f"<{message.delivery}@{domain}>",
            "Date": formatdate(message.created_at.timestamp()),
            "X-Tidegate-Delivery": message.delivery,
            "Auto-Submitted": "auto-generated",
        },
    )
    try:
        mail.send()
    except (smtplib.SMTPException, OSError) as error:
        raise NotTaken(f"{type(error).__name__}: {error}"[:300]) from error


def _webhook(message: Message, user: User, secrets: Mapping[str, str], at_s: int) -> None:
    body = messages.as_json(message)
    _post(
        secrets["url"],
        body,
        {
            "X-Tidegate-Delivery": message.delivery,
            "X-Tidegate-Signature": signature(secret=secrets["secret"], body=body, at_s=at_s),
        },
    )


def _slack(message: Message, user: User, secrets: Mapping[str, str], at_s: int) -> None:
    _post(secrets["url"], messages.as_slack(message), {"X-Tidegate-Delivery": message.delivery})


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Post to the number that the name stands for now. Redirects are not followed."""
    try:
        target = resolve(url)
    except TargetRefused as refused:
        raise NotTaken(refused.code, final=refused.code != "unknown_host") from refused
    sent = {
        **headers,
        "Host": target.host_header,
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Tidegate",
    }
    try:
        with (
            httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client,
            client.stream(
                "POST",
                target.url,
                content=body,
                headers=sent,
                extensions={"sni_hostname": target.host},
            ) as answer,
        ):
            status, start = answer.status_code, _start_of(answer)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotTaken(f"{type(error).__name__}: {error}"[:300]) from error
    if not 200 <= status < 300:
        raise NotTaken(f"answered {status}: {start}".strip(": "), final=status == GONE)


def _start_of(answer: httpx.Response) -> str:
    for chunk in answer.iter_bytes():
        return chunk[:SHOWN_OF_ANSWER].decode("utf-8", errors="replace")
    return ""


_SENDERS: Mapping[ChannelType, Callable[[Message, User, Mapping[str, str], int], None]] = {
    ChannelType.EMAIL: _email,
    ChannelType.WEBHOOK: _webhook,
    ChannelType.SLACK: _slack,
}
