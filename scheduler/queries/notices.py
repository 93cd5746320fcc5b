"""What one person was told: sentences in the reader's language, made from codes and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from scheduler import models
from scheduler.core.units import format_gpu
from scheduler.queries.phrases import Phrase, Span, duration, phrase, strong

SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One line. ``unread``: it has not been shown before."""

    id: int
    at: datetime
    text: Phrase
    unread: bool


def count_unread(*, username: str) -> int:
    """Return how many lines a person has not seen. One query."""
    return models.Notification.objects.filter(username=username, read_at=None).count()


def list_notices(*, username: str) -> tuple[Notice, ...]:
    """Return the newest lines of a person."""
    rows = models.Notification.objects.filter(username=username).select_related("workload")
    return tuple(
        Notice(id=row.pk, at=row.at, text=_text(row), unread=row.read_at is None)
        for row in rows.order_by("-id")[:SHOWN]
    )


def _text(row: models.Notification) -> Phrase:
    params: Mapping[str, object] = row.params
    template = {
        "idle_warned": _("{workload} is idle for {idle}: its rule stops it in {left}."),
        "idle_stop": _(
            "{workload} was stopped after {limit} of idle time. It can be started again."
        ),
        "runtime_stop": _("{workload} was stopped: it has run for {limit}, its time limit."),
        "quota_switch_short": _(
            "{schedule} wants {target} for {unit}; it stays at {reached}, which {holders} holds and "
            "can not be interrupted. It goes on when that comes free."
        ),
        "quota_switch_arrived": _("{schedule} has come to {target} for {unit}."),
        "quota_switch_refused": _(
            "{schedule} could not switch. Why stands at the scheduled changes; it is tried again "
            "each minute."
        ),
        "serve_requested": _("{by} asks to put {workload} into service in {project}."),
        "serve_approved": _("{by} approved {workload} in {project}: it is submitted. {answer}"),
        "serve_declined": _("{by} declined {workload} in {project}. {answer}"),
    }[row.code]
    return phrase(
        template,
        workload=_name(row, params),
        project=str(params.get("project") or ""),
        by=strong(params.get("by") or "?"),
        answer=str(params.get("answer") or ""),
        schedule=strong(params.get("schedule") or "?"),
        unit=strong(params.get("unit") or "?"),
        holders=str(params.get("holders") or ""),
        **{name: _gpus(params, name) for name in ("target", "reached")},
        **{name: _seconds(params, f"{name}_s") for name in ("idle", "left", "limit")},
    )


def _name(row: models.Notification, params: Mapping[str, object]) -> Span:
    if row.workload is not None:
        return strong(row.workload.name, workload_id=row.workload.pk)
    return strong(params.get("name") or "?")


def _gpus(params: Mapping[str, object], name: str) -> str:
    value = params.get(name)
    return format_gpu(value) if isinstance(value, int) else "?"


def _seconds(params: Mapping[str, object], name: str) -> str:
    value = params.get(name)
    return duration(value) if isinstance(value, int) else "?"
