"""One's own ways outside of the pages: webhooks and the others, what goes where, what became of it."""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from ninja import Router, Schema
from ninja.responses import Status
from pydantic import Field

from access.models import User
from dashboard import words
from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict
from notices import targets
from notices.targets import TargetRefused
from scheduler.core.notices import CHANNELS, ChannelType, Kind
from scheduler.operations import deliveries
from scheduler.operations import notices as operations
from scheduler.operations.refused import NotFound, Problem, StateRefused
from scheduler.queries import notices as queries

router = Router(tags=["Me"])


class ChannelOut(Schema):
    """One way. ``shown``: what may be shown of its address."""

    id: int
    type: ChannelType
    shown: str


class MadeChannelOut(ChannelOut):
    """A channel that was set. ``secret`` signs what a webhook gets, and is shown this once."""

    secret: str


class ChannelIn(Strict):
    """Where it goes to; mail goes to the address of one's account and needs none."""

    type: ChannelType
    url: str = Field("", max_length=1000)


class DeliveryOut(Schema):
    """One message on its way, gone, or dead."""

    id: str
    type: ChannelType
    created_at: datetime
    status: str
    attempts: int
    next_at: datetime
    error: str
    notices: int


class ChoicesOut(Schema):
    """Which channels each kind of notice goes to, and how long notices are gathered."""

    choices: dict[str, list[str]]
    digest_s: int


class ChoicesIn(Strict):
    """All of it; a kind that is left out goes to its default."""

    choices: dict[str, list[str]] = Field(max_length=len(Kind))
    digest_s: int = Field(description="One of 0, 30, 300, 3600, 86400.")


@router.get("/channels", response={200: list[ChannelOut], **READS}, summary="My channels")
def list_channels(request: HttpRequest) -> list[ChannelOut]:
    """At most one of each type."""
    return [
        ChannelOut.from_orm(row)
        for row in queries.list_channels(username=who(request).authority.name)
    ]


@router.put("/channels", response={200: MadeChannelOut, **WRITES}, summary="Set a channel")
def set_channel(request: HttpRequest, given: ChannelIn) -> MadeChannelOut:
    """The one of that type; what it was before is gone, and a webhook has a new secret."""
    sealed: dict[str, str] = {}
    shown = ""
    if given.type is ChannelType.EMAIL:
        _require_mail(request)
    else:
        shown = _host_of(given.url)
        sealed["url"] = given.url.strip()
    if given.type is ChannelType.WEBHOOK:
        sealed["secret"] = secrets.token_urlsafe(32)
    made = deliveries.save_channel(
        type=given.type,
        shown=shown,
        secrets=sealed,
        authority=who(request).authority,
        now=timezone.now(),
    )
    return MadeChannelOut(
        id=made.pk, type=given.type, shown=made.shown, secret=sealed.get("secret", "")
    )


@router.delete("/channels/{channel_id}", response={204: None, **WRITES}, summary="Take one away")
def remove_channel(request: HttpRequest, channel_id: lists.Id) -> Status[None]:
    """With what is still on its way on it."""
    deliveries.remove_channel(
        channel_id=channel_id, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)


@router.post("/channels/{channel_id}/test", response={202: None, **WRITES}, summary="Try one")
def try_channel(request: HttpRequest, channel_id: lists.Id) -> Status[None]:
    """A message without notices; what becomes of it stands among the deliveries."""
    deliveries.send_test(
        channel_id=channel_id, authority=who(request).authority, now=timezone.now()
    )
    return Status(202, None)


@router.get("/deliveries", response={200: list[DeliveryOut], **READS}, summary="My messages")
def list_deliveries(request: HttpRequest) -> list[DeliveryOut]:
    """The last thirty, dead ones first."""
    return [
        DeliveryOut.from_orm(row)
        for row in queries.list_deliveries(username=who(request).authority.name)
    ]


@router.post(
    "/deliveries/{delivery_id}/again", response={202: None, **WRITES}, summary="Try one anew"
)
def send_again(request: HttpRequest, delivery_id: str) -> Status[None]:
    """One that is dead."""
    try:
        number = uuid.UUID(delivery_id)
    except ValueError as error:
        raise NotFound("delivery") from error
    deliveries.send_again(delivery_id=number, authority=who(request).authority, now=timezone.now())
    return Status(202, None)


@router.get("/notice-choices", response={200: ChoicesOut, **READS}, summary="What goes where")
def read_choices(request: HttpRequest) -> ChoicesOut:
    """Of each kind the names of its channels; ``page`` is the bell."""
    chosen = queries.settings_of(username=who(request).authority.name)
    return ChoicesOut(
        choices={
            kind.value: [name for name in CHANNELS if name in chosen.channels_for_kind(kind)]
            for kind in Kind
        },
        digest_s=chosen.digest_s,
    )


@router.put("/notice-choices", response={200: ChoicesOut, **WRITES}, summary="Say what goes where")
def set_choices(request: HttpRequest, given: ChoicesIn) -> ChoicesOut:
    """For oneself."""
    operations.set_choices(
        choices=given.choices,
        digest_s=given.digest_s,
        authority=who(request).authority,
        now=timezone.now(),
    )
    return read_choices(request)


def _require_mail(request: HttpRequest) -> None:
    user = User.objects.get(pk=who(request).authority.user_id)
    if not (settings.EMAIL_HOST and user.email):
        message = _("Your account has no address, or no mail server is set.")
        raise StateRefused([Problem(field="type", code="no_mail", message=message)])


def _host_of(url: str) -> str:
    """Return the host of an address that may be used.

    Raises:
        StateRefused: it may not.
    """
    try:
        return targets.resolve(url.strip()).host
    except TargetRefused as refused:
        message = words.target_refusal(refused.code)
        raise StateRefused([Problem(field="url", code=refused.code, message=message)]) from refused
