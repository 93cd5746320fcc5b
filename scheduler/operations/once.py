"""A keyed request is carried out once, however often it is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from scheduler import models
from scheduler.operations.refused import Problem, SubmitRefused

#: After that a key may be used anew.
KEPT = timedelta(days=1)


def act_once(*, actor: str, key: str, asked: str, act: Callable[[], int], now: datetime) -> int:
    """Return the id that ``act`` makes, or made when ``actor`` sent ``key`` first.

    Key and act are committed together: of two that come at once, the second waits for the first.

    Raises:
        SubmitRefused: the key was used for something else.
    """
    fingerprint = hashlib.sha256(asked.encode()).hexdigest()
    models.SentOnce.objects.filter(at__lt=now - KEPT).delete()
    try:
        with transaction.atomic():
            row = models.SentOnce.objects.create(
                actor=actor, key=key, fingerprint=fingerprint, at=now
            )
            row.object_id = act()
            row.save(update_fields=["object_id"])
            return row.object_id
    except IntegrityError:
        row_before = models.SentOnce.objects.filter(actor=actor, key=key).first()
        if row_before is None or row_before.object_id is None:
            raise
    if row_before.fingerprint != fingerprint:
        raise SubmitRefused(
            [
                Problem(
                    field="Idempotency-Key",
                    code="key_used",
                    message="This key was used for another submission. Use a new one.",
                )
            ]
        )
    return row_before.object_id
