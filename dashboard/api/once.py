"""Idempotency keys: a submission sent again is answered with what came of it the first time."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.utils import timezone
from ninja import Schema

from dashboard.api.callers import who
from scheduler.operations import once


def act_once(request: HttpRequest, *, key: str, given: Schema, act: Callable[[], int]) -> int:
    """Carry ``act`` out, once for each key of the caller; without a key, each time."""
    if not key:
        return act()
    return once.act_once(
        actor=who(request).authority.name,
        key=key,
        asked=f"{request.path} {given.model_dump_json()}",
        act=act,
        now=timezone.now(),
    )
