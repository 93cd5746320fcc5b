"""One message in its reader's language: subject, lines, and the forms that channels want."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from access.models import User
from access.scopes import visibility_of
from scheduler.operations.deliveries import Claimed
from scheduler.queries import notices
from scheduler.queries.notices import Notice
from scheduler.queries.phrases import plain
from scheduler.queries.settings import read_settings

#: More lines than this are counted: the page has them all.
MOST_LINES = 100
#: What Slack and its likes take.
MOST_CHARACTERS = 3500


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a message."""

    id: int
    at: datetime
    code: str
    kind: str
    text: str
    url: str
    workload_id: int | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent. ``delivery``: the same each time that it is tried."""

    delivery: str
    created_at: datetime
    subject: str
    lines: tuple[Line, ...]
    more: int
    text: str
    settings_url: str


def write(*, claimed: Claimed, user: User) -> Message:
    """Write a message as its reader may read it now, in its language; times are of the cluster's zone."""
    language = user.language or settings.LANGUAGE_CODE
    zone = ZoneInfo(read_settings().time_zone)
    with translation.override(language), timezone.override(zone):
        rows = notices.list_in_message(ids=claimed.notice_ids, visible=visibility_of(user=user))
        lines = tuple(_line(row) for row in rows[:MOST_LINES])
        more = len(rows) - len(lines)
        own = address(reverse("notice_settings"))
        return Message(
            delivery=str(claimed.id),
            created_at=claimed.created_at,
            subject=_subject(lines, more),
            lines=lines,
            more=more,
            text=_text(lines, more, own),
            settings_url=own,
        )


def as_json(message: Message) -> bytes:
    """Return the body of a webhook."""
    body: dict[str, Any] = {
        "delivery": message.delivery,
        "created_at": message.created_at.isoformat(),
        "subject": message.subject,
        "notices": [
            {
                "id": line.id,
                "at": line.at.isoformat(),
                "kind": line.kind,
                "code": line.code,
                "text": line.text,
                "count": line.count,
                "workload_id": line.workload_id,
                "url": line.url,
            }
            for line in message.lines
        ],
        "more": message.more,
    }
    return json.dumps(body, ensure_ascii=False).encode()


def as_slack(message: Message) -> bytes:
    """Return what an incoming webhook of Slack, Mattermost or the like takes."""
    rows = [f"*{_escaped(message.subject)}*"]
    for line in message.lines:
        text = _escaped(line.text)
        rows.append(f"• {text} <{line.url}|→>" if line.url else f"• {text}")
    text = "\n".join(rows)
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS].rpartition(chr(10))[0]}\n..."
    return json.dumps({"text": text}, ensure_ascii=False).encode()


def address(path: str) -> str:
    """Return a page's whole address; empty where nobody has said where people reach the pages."""
    return f"{settings.PUBLIC_URL}{path}" if settings.PUBLIC_URL else ""


def _line(row: Notice) -> Line:
    path = (
        reverse("notices")
        if row.workload_id is None
        else reverse("workload", args=[row.workload_id])
    )
    return Line(
        id=row.id,
        at=row.at,
        code=row.code,
        kind=row.kind.value,
        text=plain(row.text).strip(),
        url=address(path),
        workload_id=row.workload_id,
        count=row.count,
    )


def _subject(lines: Sequence[Line], more: int) -> str:
    if not lines:
        return _("Test of this channel")
    if len(lines) == 1 and not more:
        return lines[0].text[:150]
    n = len(lines) + more
    return ngettext("{n} notice", "{n} notices", n).format(n=n)


def _text(lines: Sequence[Line], more: int, settings_url: str) -> str:
    if not lines:
        rows = [_("Nothing has happened: this message only shows that the channel works.")]
    else:
        rows = [_row(line) for line in lines]
    if more:
        rows.append(_("and {n} more, on the page").format(n=more))
    if settings_url:
        rows += ["", _("What you are told where: {url}").format(url=settings_url)]
    return "\n".join(rows)


def _row(line: Line) -> str:
    at = f"{timezone.localtime(line.at):%Y-%m-%d %H:%M} {timezone.get_current_timezone()}"
    return f"{at}  {line.text}" + (f"\n    {line.url}" if line.url else "")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
