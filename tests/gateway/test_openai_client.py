"""The ``openai`` package works unchanged: models, chat, streams, completions, embeddings, errors."""

from __future__ import annotations

import openai
import pytest


@pytest.fixture
def chat(town, gateway):
    """Two services of two projects, one replica each, seen by the gateway."""
    small = town.service("small", model_names=("small-1", "small-latest"))
    town.ready(small, town.start_process())
    other = town.service("other", of="dev-chat")
    town.ready(other, town.start_process())
    gateway.sees(small, replicas=1)
    gateway.sees(other, replicas=1)
    return small


@pytest.fixture
def client(town, gateway, chat):
    made = openai.OpenAI(
        api_key=town.key(), base_url=f"{gateway.address}/v1", max_retries=0, timeout=30
    )
    yield made
    made.close()


def ask(client, text="hello", **options):
    return client.chat.completions.create(
        model="small-1", messages=[{"role": "user", "content": text}], **options
    )


def test_models_of_the_key_and_no_others(client):
    assert [model.id for model in client.models.list()] == ["small-1", "small-latest"]
    assert client.models.retrieve("small-1").owned_by == "prod-inference"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_chat(client):
    answer = ask(client, "chunks=4")
    assert answer.choices[0].message.content.startswith("answer of")
    assert answer.usage.completion_tokens == 4


def test_a_stream_comes_part_by_part(client):
    stream = ask(client, "chunks=4", stream=True, stream_options={"include_usage": True})
    parts = list(stream)
    words = [part.choices[0].delta.content for part in parts if part.choices]
    assert words == ["w0 ", "w1 ", "w2 ", "w3 "]
    assert parts[-1].usage.total_tokens == 15


def test_completions_and_embeddings(client):
    made = client.completions.create(model="small-latest", prompt="hi")
    assert made.choices[0].text.startswith("answer of")
    vectors = client.embeddings.create(
        model="small-1", input=["one", "three"], encoding_format="float"
    )
    assert [row.embedding for row in vectors.data] == [[3.0, 0.5], [5.0, 0.5]]


def test_a_model_of_another_project_is_answered_like_one_that_does_not_exist(client):
    texts = []
    for model in ("other", "no-such-model"):
        with pytest.raises(openai.NotFoundError) as refused:
            client.chat.completions.create(model=model, messages=[])
        assert refused.value.code == "model_not_found"
        texts.append(str(refused.value).replace(model, "MODEL"))
    assert texts[0] == texts[1]


def test_a_bad_key(gateway, chat):
    with (
        openai.OpenAI(
            api_key="tg-wrong", base_url=f"{gateway.address}/v1", max_retries=0
        ) as stranger,
        pytest.raises(openai.AuthenticationError) as refused,
    ):
        stranger.models.list()
    assert refused.value.code == "invalid_api_key"


def test_a_bad_request(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/chat/completions", cast_to=object, body={"messages": []})
    assert refused.value.param == "model"


def test_a_replica_that_dies_in_mid_stream_is_a_clean_error(client):
    stream = ask(client, "chunks=5 die=2", stream=True)
    got: list[str | None] = []
    with pytest.raises(openai.APIError, match="broke off in the middle"):
        got.extend(part.choices[0].delta.content for part in stream)
    assert got == ["w0 ", "w1 ", "w2 "]
