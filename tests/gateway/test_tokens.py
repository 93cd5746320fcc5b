"""A stream's usage: asked for in the caller's place and taken out again, however the bytes are cut."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tokens import TokenReader, Tokens, UsageEventFilter, ask_for_usage

WORDS = [b'data: {"choices":[{"delta":{"content":"w%d \\"usage\\": {"}}]}' % n for n in range(4)]
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":4}}'
DONE = b"data: [DONE]"


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
@given(cuts=st.sets(st.integers(1, 300), max_size=12))
def test_only_the_usage_is_taken_out(end, cuts):
    stream = b"".join(event + end for event in [*WORDS, USAGE, DONE])
    told = UsageEventFilter()
    marks = [0, *sorted(cuts), len(stream)]
    passed = [told.feed(stream[a:b]) for a, b in itertools.pairwise(marks)]
    assert b"".join(passed) + told.rest() == b"".join(e + end for e in [*WORDS, DONE])


def test_a_stream_that_ends_within_an_event_loses_nothing():
    told = UsageEventFilter()
    assert told.feed(b"data: 1\n\ndata: 2") + told.rest() == b"data: 1\n\ndata: 2"


def test_an_event_without_end_is_not_held_for_ever():
    told = UsageEventFilter()
    assert sum(len(told.feed(b"x" * 40_000)) for _ in range(3)) >= 80_000


def test_the_body_asks_for_usage_and_keeps_all_else():
    asked = json.loads(ask_for_usage(b' {"model": "a", "stream": true}'))
    assert asked == {"model": "a", "stream": True, "stream_options": {"include_usage": True}}


def test_usage_is_read_and_events_count_where_there_is_none():
    reader = TokenReader(is_stream=True)
    reader.feed(b"".join(event + b"\n\n" for event in [*WORDS, USAGE, DONE]))
    assert reader.tokens() == Tokens(taken=7, made=4)
    reader = TokenReader(is_stream=True)
    reader.feed(b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n")
    assert reader.tokens() == Tokens(made=2)
