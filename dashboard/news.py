"""After each tick: what was decided goes into the log as a sentence, which `up` shows."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from celery import signals
from django.conf import settings
from django.utils import timezone
from django.utils.translation import override
from redis import Redis, RedisError

from scheduler.queries import history
from scheduler.queries.phrases import plain
from scheduler.queries.visibility import WHOLE_CLUSTER

log = logging.getLogger(__name__)

TICK = "scheduler.tasks.tick"
TOLD_KEY = "tidegate:news_told"
MOST_AT_ONCE = 10

# Without a mark, as after a restart, older decisions are no news.
_begun_at: datetime = timezone.now()


@signals.task_postrun.connect
def tell_news(*, task: Any = None, **_: Any) -> None:
    """Log the decisions that came since the last tick of any process."""
    if task is None or task.name != TICK:
        return
    client = Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    try:
        with client:
            sentences = _untold(client)
    except RedisError as error:  # it is away: they are told after the next tick
        log.warning("news.not_told", extra={"error": str(error)})
        return
    for sentence in sentences:
        log.info("decision", extra={"said": sentence})


def _untold(client: Redis) -> list[str]:
    wanted = history.DecisionFilter(limit=MOST_AT_ONCE)
    rows = history.list_decisions(visible=WHOLE_CLUSTER, wanted=wanted)
    if not rows:
        return []
    told = client.set(TOLD_KEY, rows[0].id, get=True)
    fresh = [row for row in rows if (row.id > int(told) if told else row.at >= _begun_at)]
    with override(settings.LANGUAGE_CODE):
        return [f"{row.verb_name}: {plain(row.text)}" for row in reversed(fresh)]
