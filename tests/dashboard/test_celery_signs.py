"""What worker and timer leave in Redis beside their work: signs of life, and which decisions were told."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import redis
from django.utils import timezone

from dashboard import celery, news
from scheduler import models
from tests.scheduler import places


def test_a_sign_is_left_with_an_end(settings):
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.delete(celery.WORKER_SEEN_KEY)
        celery.say_worker_is_there()
        assert int(client.get(celery.WORKER_SEEN_KEY)) > 0
        assert 0 < client.ttl(celery.WORKER_SEEN_KEY) <= celery.SEEN_FOR_S


def test_without_redis_a_heartbeat_goes_on_and_says_so(settings, caplog):
    settings.REDIS_URL = "redis://127.0.0.1:9/0"  # nobody listens there
    with caplog.at_level(logging.WARNING, logger="dashboard.celery"):
        celery.say_worker_is_there()
        celery.say_beat_is_there()
    assert [record.key for record in caplog.records] == [
        celery.WORKER_SEEN_KEY,
        celery.BEAT_SEEN_KEY,
    ]


@pytest.mark.django_db(transaction=True)
def test_decisions_are_told_after_the_next_tick_where_redis_was_away(settings, caplog, monkeypatch):
    # Given a decision, and no Redis
    monkeypatch.setattr(news, "_begun_at", places.START)
    place = places.card().department("d", quota="1").project("p", of="d", quota="1")
    train = place.submit("train", of="p", gpu="1")
    models.Decision.objects.create(
        at=timezone.now(),
        verb="place",
        workload=train,
        project=place.projects["p"],
        pool=place.pool,
    )
    address = settings.REDIS_URL
    with redis.Redis.from_url(address) as client:
        client.delete(news.TOLD_KEY)
    tick = SimpleNamespace(name=news.TICK)
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    with caplog.at_level(logging.INFO, logger="dashboard.news"):
        news.tell_news(task=tick)
        assert [record.msg for record in caplog.records] == ["news.not_told"]
        # When it is back, then the decision is told, once
        settings.REDIS_URL = address
        news.tell_news(task=tick)
        news.tell_news(task=tick)
    assert [record.msg for record in caplog.records] == ["news.not_told", "decision"]
