"""Holding, order, balance, limits, slots and leases, over real sockets (field scenarios B16 to B20)."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from gateway import forward
from scheduler import events, models
from scheduler.core import latencies
from scheduler.operations import gateway_keys
from scheduler.operations.authority import SYSTEM
from scheduler.telemetry import demand
from tests.gateway.conftest import fetch, now
from tests.product import wait_until


def chat(gateway, key, text="", model="small", **options):
    address = gateway if isinstance(gateway, str) else gateway.address
    body = {"model": model, "messages": [{"role": "user", "content": text}], **options}
    return fetch(f"{address}/v1/chat/completions", key=key, body=body)


def begin(address, key, text):
    """Send a streamed chat and return its connection, without waiting for the answer."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    body = {"model": "small", "stream": True, "messages": [{"content": text}]}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    return connection


def open_stream(gateway, key, text):
    """Begin a streamed chat and return its connection and answer, unread."""
    connection = begin(gateway.address, key, text)
    return connection, connection.getresponse()


def counted(workload):
    """Return (in flight, waiting) as the tick reads them."""
    told = demand.read(
        client=events.client(), workload_ids=[workload.pk], window_s=60, now_s=int(time.time())
    )
    counts = told.services.get(workload.pk, demand.Counts())
    return counts.in_flight, counts.waiting


@pytest.fixture
def small(town, gateway):
    workload = town.service("small", hard_limit=2, low=0)
    gateway.sees(workload, replicas=0)
    return workload


@pytest.mark.parametrize("hard_limit", [1, 0])
def test_500_requests_at_a_service_at_zero_get_500_answers_in_order(town, gateway, hard_limit):
    # Given a service without a replica, and 500 requests that come one after the other
    small = town.service("small", low=0, hard_limit=hard_limit)
    gateway.sees(small, replicas=0)
    key = town.key()
    with ThreadPoolExecutor(500) as callers:
        asked = []
        for number in range(500):
            asked.append(callers.submit(chat, gateway, key, f"id={number}"))
            while gateway.waits_for(small) <= number:
                time.sleep(0.001)
        # When its first replica answers
        replica = town.start_process()
        town.ready(small, replica)
        answers = [each.result(timeout=60) for each in asked]
    # Then all 500 are answered, none refused and none twice, in the order in which they came
    assert {status for status, _, _ in answers} == {200}
    seen = replica.seen()["order"]
    assert sorted(seen, key=int) == [str(number) for number in range(500)]
    # Without a bound all are sent one after the other at once, and the replica picks among them.
    if hard_limit:
        assert seen == sorted(seen, key=int)
    assert all(int(headers["x-tidegate-queued-ms"]) >= 0 for _, _, headers in answers)


def test_b18_a_burst_on_a_sleeping_service_does_not_drown_the_first_replica(town, gateway, small):
    # Given at most 2 in flight for each replica, and 8 requests, two of them streams
    key = town.key()
    with ThreadPoolExecutor(8) as callers:
        asked = []
        for n in range(8):
            asked.append(callers.submit(chat, gateway, key, f"id={n} wait=0.1", stream=n in (2, 5)))
            while gateway.waits_for(small) <= n:
                time.sleep(0.001)
        # When the first replica answers
        replica = town.start_process()
        town.ready(small, replica)
        answers = [each.result(timeout=30) for each in asked]
    # Then all are answered, and the replica never saw more than two at once
    assert [status for status, _, _ in answers] == [200] * 8
    seen = replica.seen()
    assert seen["most"] == 2
    # And each was sent on once, in the order in which they came, and says how long it was held
    assert seen["order"] == [str(n) for n in range(8)]
    assert all(int(headers["x-tidegate-queued-ms"]) > 0 for _, _, headers in answers)


def test_held_requests_count_as_demand_and_wake_the_tick(town, gateway, small):
    before = events.wake_count()
    key = town.key()
    with ThreadPoolExecutor(2) as callers:
        asked = callers.submit(chat, gateway, key)
        wait_until(lambda: counted(small) == (0, 1), within_s=5, what="it is counted")
        wait_until(lambda: events.wake_count() > before, within_s=5, what="the tick is woken")
        town.ready(small, town.start_process())
        assert asked.result(timeout=20)[0] == 200
    wait_until(lambda: counted(small) == (0, 0), within_s=5, what="it is counted no more")


def test_a_waiting_room_has_a_last_place(town, gateway):
    small = town.service("small", low=0, waiting_limit=3, request_timeout_s=2)
    gateway.sees(small, replicas=0)
    key = town.key()
    with ThreadPoolExecutor(3) as callers:
        held = [callers.submit(chat, gateway, key) for _ in range(3)]
        wait_until(lambda: gateway.waits_for(small) == 3, within_s=5, what="three wait")
        status, body, headers = chat(gateway, key)
        assert status == 429
        assert headers["retry-after"]
        assert json.loads(body)["error"]["code"] == "waiting_room_full"
        # And those that wait in vain are told so when the request timeout is over
        answers = [each.result(timeout=20) for each in held]
    assert [status for status, _, _ in answers] == [503] * 3
    assert all(headers["retry-after"] for _, _, headers in answers)


def test_b19_ten_thousand_requests_at_a_service_that_does_not_come_up(town, start_gateway):
    # Given a service that can't come up, with room for 50 that wait
    small = town.service("small", low=0, waiting_limit=50)
    address, process = start_gateway()
    key = town.key()
    with ThreadPoolExecutor(50) as callers:
        held = [callers.submit(chat, address, key) for _ in range(49)]
        gone = begin(address, key, "")
        wait_until(lambda: counted(small) == (0, 50), within_s=15, what="fifty wait")
        before_mib = psutil.Process(process.pid).memory_info().rss >> 20
        # When 10,000 more come
        answers = ask_many(address, key, count=10_000)
        # Then each is told at once that the room is full, and the gateway holds nothing of them
        assert answers == {429: 10_000}
        assert (psutil.Process(process.pid).memory_info().rss >> 20) - before_mib < 48
        # And one that hung up is dropped and counts no more
        gone.close()
        wait_until(
            lambda: counted(small)[1] == 49, within_s=15, what="who hung up is no demand any more"
        )
        # And the others are told why once its starts have failed for good
        models.Workload.objects.filter(pk=small.pk).update(
            phase="failed", failure={"message": "no such file: model.gguf"}
        )
        told = [each.result(timeout=60) for each in held]
    assert {status for status, _, _ in told} == {503}
    assert all(headers["retry-after"] for _, _, headers in told)
    assert all("no such file: model.gguf" in body.decode() for _, body, _ in told)
    wait_until(lambda: counted(small) == (0, 0), within_s=10, what="nobody is left")


def ask_many(address, key, *, count, at_once=10):
    """Return how many of so many chats got which status, over kept connections."""

    def ask(share):
        statuses = Counter()
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        body = json.dumps({"model": "small", "messages": []})
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        for _ in range(share):
            connection.request("POST", "/v1/chat/completions", body, headers)
            answer = connection.getresponse()
            answer.read()
            statuses[answer.status] += 1
        connection.close()
        return statuses

    with ThreadPoolExecutor(at_once) as callers:
        parts = list(callers.map(ask, [count // at_once] * at_once))
    return dict(sum(parts, Counter()))


def test_b19_a_service_that_has_failed_says_so_at_once(town, gateway, small):
    key = town.key()
    with ThreadPoolExecutor(5) as callers:
        held = [callers.submit(chat, gateway, key) for _ in range(5)]
        wait_until(lambda: gateway.waits_for(small) == 5, within_s=5, what="five wait")
        models.Workload.objects.filter(pk=small.pk).update(
            phase="failed", failure={"message": "no such file: model.gguf"}
        )
        answers = [each.result(timeout=20) for each in held]
    answers.append(chat(gateway, key))
    for status, body, headers in answers:
        assert status == 503
        assert "no such file: model.gguf" in json.loads(body)["error"]["message"]
        assert headers["retry-after"] == "60"


def test_b19_what_is_in_the_way_of_a_replica_is_said(town, gateway):
    small = town.service("small", low=0, request_timeout_s=1)
    models.Workload.objects.filter(pk=small.pk).update(
        reason_code="NonPreemptibleOverQuota",
        reason={
            "code": "NonPreemptibleOverQuota",
            "level": "project",
            "resource": "gpu",
            "quota": 250,
            "allocated": 240,
            "requested": 100,
        },
    )
    gateway.sees(small, replicas=0)
    status, body, _ = chat(gateway, town.key())
    assert status == 503
    assert "prod-inference" in json.loads(body)["error"]["message"]


def test_a_caller_that_hangs_up_leaves_the_line(town, gateway, small):
    connection = begin(gateway.address, town.key(), "")
    wait_until(lambda: gateway.waits_for(small) == 1, within_s=5, what="it waits")
    connection.close()
    wait_until(lambda: gateway.waits_for(small) == 0, within_s=30, what="it has left the line")
    wait_until(lambda: counted(small) == (0, 0), within_s=30, what="it counts no more")
    assert (gateway.waits_for(small), counted(small)) == (0, (0, 0))


def test_the_least_busy_replica_is_chosen(town, gateway):
    small = town.service("small")
    first, second = town.start_process(), town.start_process()
    town.ready(small, first)
    town.ready(small, second)
    gateway.sees(small, replicas=2)
    key = town.key()
    with ThreadPoolExecutor(6) as callers:
        list(callers.map(lambda n: chat(gateway, key, f"id={n} wait=0.4"), range(6)))
    assert (first.seen()["most"], second.seen()["most"]) == (3, 3)


def test_a_replica_that_refuses_connections_is_passed_over(town, gateway):
    small = town.service("small")
    gone, alive = town.start_process(), town.start_process()
    town.ready(small, gone)
    town.ready(small, alive)
    gateway.sees(small, replicas=2)
    gone.end()
    key = town.key()
    answers = [chat(gateway, key, f"id={n}")[0] for n in range(6)]
    assert answers == [200] * 6
    assert alive.seen()["order"] == [str(n) for n in range(6)]


def test_a_request_whose_only_replica_refuses_waits_for_the_next(town, gateway):
    small = town.service("small")
    gone = town.start_process()
    row = town.ready(small, gone)
    gateway.sees(small, replicas=1)
    gone.end()
    with ThreadPoolExecutor(1) as callers:
        asked = callers.submit(chat, gateway, town.key(), "id=1")
        wait_until(lambda: gateway.waits_for(small) == 1, within_s=5, what="it waits")
        town.leave(row)
        town.ready(small, town.start_process())
        assert asked.result(timeout=20)[0] == 200


def test_b20_a_replica_that_leaves_gets_no_new_requests_and_finishes_its_stream(town, gateway):
    # Given one replica in the middle of a stream
    small = town.service("small", low=0)
    old = town.start_process()
    row = town.ready(small, old)
    gateway.sees(small, replicas=1)
    key = town.key()
    connection, answer = open_stream(gateway, key, "id=long chunks=20 gap=0.1")
    assert answer.readline().startswith(b"data:")
    # When it is being drained, and a request arrives
    service = models.InferenceService.objects.get(workload=small)
    service.draining = {str(row.pk): 0}
    service.save()
    gateway.sees(small, replicas=0)
    with ThreadPoolExecutor(1) as callers:
        asked = callers.submit(chat, gateway, key, "id=late")
        wait_until(lambda: gateway.waits_for(small) == 1, within_s=5, what="it is held")
        # Then the stream ends as it should, and the request is served by the next replica
        rest = answer.read()
        fresh = town.start_process()
        town.ready(small, fresh)
        assert asked.result(timeout=20)[0] == 200
    connection.close()
    assert rest.endswith(b"data: [DONE]\n\n")
    assert (old.seen()["order"], fresh.seen()["order"]) == (["long"], ["late"])


def test_a_replica_that_says_it_is_leaving_is_passed_over(town, gateway):
    small = town.service("small")
    leaving, staying = town.start_process(), town.start_process()
    town.ready(small, leaving)
    town.ready(small, staying)
    gateway.sees(small, replicas=2)
    fetch(f"http://127.0.0.1:{leaving.port}/leave")
    key = town.key()
    assert [chat(gateway, key, f"id={n}")[0] for n in range(4)] == [200] * 4
    assert staying.seen()["order"] == ["0", "1", "2", "3"]


def test_b16_no_slot_leaks(town, gateway):
    # Given one replica that takes at most 2 at once
    small = town.service("small", hard_limit=2, request_timeout_s=2)
    replica = town.start_process()
    row = town.ready(small, replica)
    gateway.sees(small, replicas=1)
    key = town.key()

    def is_free():
        wait_until(lambda: counted(small) == (0, 0), within_s=5, what="nothing is in flight")
        assert chat(gateway, key)[0] == 200

    # When two streaming callers hang up after three chunks
    for _ in range(2):
        connection, answer = open_stream(gateway, key, "chunks=100 gap=0.1")
        for _ in range(3):
            answer.readline()
        answer.close()
        connection.close()
    wait_until(lambda: replica.seen()["broken_off"] == 2, within_s=5, what="both are broken off")
    is_free()
    # one is not answered in time
    status, body, _ = chat(gateway, key, "wait=10")
    assert (status, json.loads(body)["error"]["code"]) == (504, "request_timeout")
    is_free()
    # one body is malformed
    assert fetch(f"{gateway.address}/v1/chat/completions", key=key, body=b"{oops")[0] == 400
    is_free()
    # and the replica dies in the middle of an answer
    _, answer = open_stream(gateway, key, "chunks=9 die=1")
    assert b"broke off in the middle" in answer.read()
    town.leave(row)
    # Then nothing is left in flight, and the next replica serves
    wait_until(lambda: counted(small) == (0, 0), within_s=5, what="nothing is in flight")
    town.ready(small, town.start_process())
    assert chat(gateway, key)[0] == 200


def test_b16_a_killed_gateway_takes_its_counts_with_it(town, start_gateway):
    small = town.service("small", hard_limit=1)
    town.ready(small, town.start_process())
    key = town.key()
    address, process = start_gateway()
    # Given the only slot is taken through one gateway process
    connection = begin(address, key, "wait=30")
    wait_until(lambda: counted(small) == (1, 0), within_s=10, what="it is in flight")
    # When that process is killed
    process.kill()
    process.wait(timeout=10)
    connection.close()
    # Then a new one begins without it, at once
    second, _ = start_gateway()
    assert counted(small) == (0, 0)
    assert chat(second, key)[0] == 200


def test_two_gateways_keep_the_hard_limit_together(town, start_gateway):
    # Given a replica that takes two at once, and two gateway processes
    small = town.service("small", hard_limit=2)
    replica = town.start_process()
    town.ready(small, replica)
    key = town.key()
    addresses = [start_gateway(patient=True)[0], start_gateway(patient=True)[0]]
    # When twelve ask, every second one at the other gateway
    with ThreadPoolExecutor(12) as callers:
        answers = list(
            callers.map(lambda n: chat(addresses[n % 2], key, f"id={n} wait=0.1"), range(12))
        )
    # Then all are answered, and the replica had two of them at a time
    assert [status for status, _, _ in answers] == [200] * 12
    assert replica.seen()["most"] == 2


def test_counts_of_a_killed_gateway_heal_within_its_lease(town, start_gateway):
    # Given the only slot is taken through one of two gateway processes
    small = town.service("small", hard_limit=1)
    town.ready(small, town.start_process())
    key = town.key()
    (first, process), (second, _) = start_gateway(), start_gateway()
    connection = begin(first, key, "wait=60")
    wait_until(lambda: counted(small) == (1, 0), within_s=30, what="it is in flight")
    # When that process is killed, and nobody says so
    process.kill()
    process.wait(timeout=10)
    connection.close()
    # Then its lease ends by itself: the count is gone and the slot is another's
    lease_ms = max(
        events.client().pttl(demand.lease_key(name.decode()))
        for name in events.client().zrange(demand.GATEWAYS_KEY, 0, -1)
    )
    assert lease_ms <= demand.LEASE_MS
    assert chat(second, key)[0] == 200
    wait_until(lambda: counted(small) == (0, 0), within_s=30, what="nothing is in flight")
    assert counted(small) == (0, 0)


# --- Keys and usage -------------------------------------------------------------------------------


def test_usage_is_kept_per_key_and_model(town, gateway):
    small = town.service("small", model_names=("small", "other-name"))
    models.GpuPrice.objects.create(price_per_hour=3600, from_at=now())
    town.ready(small, town.start_process())
    gateway.sees(small, replicas=1)
    key = town.key(name="team")
    chat(gateway, key, "chunks=4")
    chat(gateway, key, "chunks=6 wait=0.2", stream=True, stream_options={"include_usage": True})
    chat(gateway, key, "chunks=5", stream=True, model="other-name")

    def rows():
        return {row.model: row for row in models.GatewayUsage.objects.all()}

    wait_until(
        lambda: sum(row.requests for row in rows().values()) == 3, within_s=10, what="it is kept"
    )
    used = rows()
    assert (used["small"].input_tokens, used["small"].output_tokens) == (22, 10)
    # A stream whose caller did not ask for its usage: the gateway did
    assert (used["other-name"].input_tokens, used["other-name"].output_tokens) == (11, 5)
    assert used["small"].served_ms >= 200
    # A quarter of a GPU at 3600 an hour, for 0.2 s and a little
    assert 50_000 <= used["small"].cost_micro <= 500_000


@pytest.mark.parametrize("step_s", [-90, 400])
def test_b44_a_clock_that_steps_changes_nothing_of_what_a_request_used(
    town, gateway, monkeypatch, step_s
):
    # Given a stream of a service whose requests may take 300 s
    small = town.service("small")
    town.ready(small, town.start_process())
    step_us = 0
    monkeypatch.setattr(forward, "now_us", lambda: time.time_ns() // 1000 + step_us)
    connection, answer = open_stream(gateway, town.key(), "chunks=4 wait=0.1")
    # When the clock steps while it runs
    step_us = step_s * 1_000_000
    answer.read()
    connection.close()
    # Then its time at the replica is what passed
    wait_until(models.GatewayUsage.objects.exists, within_s=20, what="the usage is written")
    row = models.GatewayUsage.objects.get()
    assert (row.requests, row.errors) == (1, 0)
    assert 0 <= row.served_ms < 60_000
    assert 0 <= row.queued_ms < 60_000


def test_a_caller_gets_the_usage_of_a_stream_only_where_it_asked(town, gateway):
    small = town.service("small")
    town.ready(small, town.start_process())
    gateway.sees(small, replicas=1)
    key = town.key()
    silent = chat(gateway, key, "chunks=3", stream=True)[1]
    asked = chat(gateway, key, "chunks=3", stream=True, stream_options={"include_usage": True})[1]
    assert (silent.count(b"data: "), b'"usage"' in silent) == (4, False)
    assert (asked.count(b"data: "), b'"usage"' in asked) == (5, True)
    assert silent.endswith(b"data: [DONE]\n\n")


def test_a_replica_that_knows_no_stream_options_is_not_asked_again(town, gateway):
    small = town.service("small")
    replica = town.start_process()
    fetch(f"http://127.0.0.1:{replica.port}/plain")
    town.ready(small, replica)
    gateway.sees(small, replicas=1)
    key = town.key()
    for _ in range(2):
        status, body, _ = chat(gateway, key, "id=1 chunks=3", stream=True)
        assert (status, body.count(b"data: ")) == (200, 4)
    assert replica.seen()["refused"] == 1
    wait_until(lambda: _tokens_made() == 6, within_s=10, what="its events are counted")


def _tokens_made():
    return sum(row.output_tokens for row in models.GatewayUsage.objects.all())


def test_latencies_are_kept_by_minute(town, gateway):
    small = town.service("small")
    town.ready(small, town.start_process())
    gateway.sees(small, replicas=1)
    key = town.key()
    chat(gateway, key, "wait=0.3")
    chat(gateway, key, "chunks=4 gap=0.1", stream=True)

    def counts(name):
        kept = [getattr(row, name) for row in models.ServiceLatency.objects.all()]
        return latencies.joined(*(dict(map(tuple, pairs)) for pairs in kept))

    wait_until(lambda: sum(counts("whole").values()) == 2, within_s=10, what="they are kept")
    assert latencies.percentile_ms(counts=counts("whole"), percent=100) >= 300
    # The first byte of the stream came well before its last
    assert latencies.percentile_ms(counts=counts("first"), percent=50) < 300


LIMITS = [
    ("a minute", {"requests_per_minute": 2}, "rate_limit_exceeded"),
    ("a day", {"tokens_per_day": 25}, "rate_limit_exceeded"),
    ("in money", {"budget_micro": 1}, "insufficient_quota"),
]


@pytest.mark.parametrize(("name", "terms", "code"), LIMITS, ids=[row[0] for row in LIMITS])
def test_limits_of_a_key(town, gateway, name, terms, code):
    small = town.service("small")
    models.GpuPrice.objects.create(price_per_hour=3600, from_at=now())
    town.ready(small, town.start_process())
    gateway.sees(small, replicas=1)
    key = town.key(**terms)
    for _ in range(2):
        assert chat(gateway, key, "chunks=4 wait=0.05")[0] == 200
    refusals = []

    def is_refused():
        refusals.append(chat(gateway, key))
        return refusals[-1][0] == 429

    # What was used is read again every two seconds; a minute's count is exact.
    wait_until(is_refused, within_s=10, what="it is refused")
    _, body, headers = refusals[-1]
    assert json.loads(body)["error"]["code"] == code
    assert int(headers["retry-after"]) > 0


def test_a_revoked_key_ends(town, gateway):
    key = town.key()
    assert fetch(f"{gateway.address}/v1/models", key=key)[0] == 200
    row = models.GatewayKey.objects.get()
    assert key not in (row.digest, row.prefix)
    gateway_keys.revoke_key(key_id=row.pk, authority=SYSTEM, now=now())
    wait_until(
        lambda: fetch(f"{gateway.address}/v1/models", key=key)[0] == 401,
        within_s=6,
        what="it is refused",
    )


def test_a_department_key_reaches_its_projects_and_allowed_models_only(town, gateway):
    for name, project in (("a", "dev-chat"), ("b", "dev-embed"), ("c", "prod-inference")):
        gateway.sees(town.service(name, of=project), replicas=0)

    def listed(key):
        data = json.loads(fetch(f"{gateway.address}/v1/models", key=key)[1])["data"]
        return [model["id"] for model in data]

    assert listed(town.key(department="dev-test")) == ["a", "b"]
    assert listed(town.key(department="dev-test", allowed_models=("b", "c"))) == ["b"]
    assert listed(town.key(of="prod-inference")) == ["c"]


# --- What passes through --------------------------------------------------------------------------


def test_any_path_of_a_service(town, gateway):
    small = town.service("small")
    replica = town.start_process()
    town.ready(small, replica)
    gateway.sees(small, replicas=1)
    key = town.key()
    base = f"{gateway.address}/services/prod-inference/small"
    status, body, headers = fetch(f"{base}/echo/a%20b?x=1", key=key, headers={"Cookie": "s=1"})
    assert (status, json.loads(body)) == (
        200,
        {"path": "/echo/a b", "query": "x=1", "size": 0, "method": "GET"},
    )
    assert "sandbox" in headers["content-security-policy"]
    # The caller's key and cookies never reach the replica
    assert not {"authorization", "cookie"} & set(replica.seen()["headers"])
    assert fetch(f"{gateway.address}/services/dev-chat/small/echo", key=key)[0] == 404
    assert fetch(f"{base}/echo", key="tg-wrong")[0] == 401


@pytest.mark.parametrize("size", [100_000, 5_000_000])
def test_a_large_body_passes_and_is_not_held_whole(town, gateway, size):
    small = town.service("small")
    town.ready(small, town.start_process())
    gateway.sees(small, replicas=1)
    key = town.key()
    address = f"{gateway.address}/services/prod-inference/small/echo"
    assert json.loads(fetch(address, key=key, body=b"x" * size)[1])["size"] == size
    # The model may stand behind all of it
    body = {"messages": [{"role": "user", "content": "x" * size + " chunks=2"}], "model": "small"}
    status, answer, _ = fetch(f"{gateway.address}/v1/chat/completions", key=key, body=body)
    assert (status, json.loads(answer)["usage"]["completion_tokens"]) == (200, 2)


def test_a_body_beyond_the_bound_is_refused(town, gateway, small):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    connection.putrequest("POST", "/services/prod-inference/small/echo")
    connection.putheader("Authorization", f"Bearer {town.key()}")
    connection.putheader("Content-Length", str(65 * 1024 * 1024))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_a_posted_number_becomes_the_custom_metric(town, gateway):
    from scheduler.core.autoscale import Metric

    small = town.service("small", metric=Metric.CUSTOM, gauge_name="queue_length", low=1)
    plain = town.service("plain")
    gateway.sees(small, replicas=0)
    gateway.sees(plain, replicas=0)
    key = town.key()

    def post(body, *, name="small", project="prod-inference", key=key):
        address = f"{gateway.address}/v1/services/{project}/{name}/metric"
        status, answer, _ = fetch(address, key=key, body=body)
        return status, json.loads(answer)

    assert post({"name": "queue_length", "value": 12.5}) == (200, {"accepted": True})
    # What can't be is answered in the shape of all errors, naming the field
    for body in ({"name": "other", "value": 1}, {"name": "queue_length", "value": -1}, {}):
        status, answer = post(body)
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert post({"name": "queue_length", "value": True})[1]["error"]["param"] == "value"
    assert (
        "does not scale by" in post({"name": "a", "value": 1}, name="plain")[1]["error"]["message"]
    )
    # A key of another project finds no such service
    assert post({"name": "queue_length", "value": 1}, key=town.key(of="dev-chat"))[0] == 404
    assert post({"name": "queue_length", "value": 1}, key="tg-wrong")[0] == 401
    wait_until(lambda: _gauges(small) == [12_500], within_s=10, what="the number is recorded")


def _gauges(workload):
    told = demand.read(
        client=events.client(), workload_ids=[workload.pk], window_s=60, now_s=int(time.time())
    )
    buckets = told.buckets.get(workload.pk, {}).values()
    return [bucket.gauge_milli for bucket in buckets if bucket.gauges]


def test_a_gauge_of_the_replicas_becomes_the_custom_metric(town, gateway):
    from scheduler.core.autoscale import Metric

    small = town.service("small", metric=Metric.CUSTOM, gauge_name="queue_length")
    replica = town.start_process()
    fetch(f"http://127.0.0.1:{replica.port}/gauge/42")
    town.ready(small, replica)

    def read():
        told = demand.read(
            client=events.client(), workload_ids=[small.pk], window_s=60, now_s=int(time.time())
        )
        return [bucket for bucket in told.buckets.get(small.pk, {}).values() if bucket.gauges]

    seconds = wait_until(read, within_s=30, what="the gauge is recorded")
    assert {bucket.gauge_milli // bucket.gauges for bucket in seconds} == {42_000}
