"""The signs of life that worker and timer leave for `up`."""

from __future__ import annotations

import logging

import redis

from dashboard import celery


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
