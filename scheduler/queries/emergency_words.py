"""Emergency controls as sentences: what is in force, and what is told when one begins and ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from scheduler.core.emergency import ControlKind
from scheduler.queries.emergency import ControlRow
from scheduler.queries.phrases import Phrase, phrase, strong


def in_force(row: ControlRow) -> str:
    """Return what a control does, where, and until when."""
    return _template(row.kind.value, row.scope_name).format(
        scope=row.scope_name, until=_moment(row.until)
    )


def told(code: str, params: Mapping[str, object]) -> Phrase:
    """Return a notice's sentence."""
    kind, scope = str(params.get("kind") or ""), str(params.get("scope") or "")
    if code == "emergency_ended":
        return phrase(_ended(kind, scope), scope=strong(scope))
    until = parse_datetime(str(params.get("until") or ""))
    return (
        *phrase(
            _template(kind, scope), scope=strong(scope), until=_moment(until) if until else "?"
        ),
        *phrase(" {reason}", reason=str(params.get("reason") or "")),
    )


def _template(kind: str, scope: str) -> str:
    if kind == ControlKind.FREEZE:
        return _("Reclaim and preemption are frozen until {until}: nobody is interrupted.")
    if kind == ControlKind.HOLD:
        return _("{scope} is held back until {until}: it does not start.")
    if scope:
        return _("Starts are paused in {scope} until {until}. What runs goes on.")
    return _("Starts are paused in the whole cluster until {until}. What runs goes on.")


def _ended(kind: str, scope: str) -> str:
    if kind == ControlKind.FREEZE:
        return _("Reclaim and preemption are no longer frozen.")
    if kind == ControlKind.HOLD:
        return _("{scope} is no longer held back.")
    if scope:
        return _("Starts are no longer paused in {scope}.")
    return _("Starts are no longer paused in the whole cluster.")


def _moment(at: datetime) -> str:
    return f"{timezone.localtime(at):%m-%d %H:%M}"
