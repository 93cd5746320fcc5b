"""Traces of starts, read back from the SDK's own exporter in memory."""

from __future__ import annotations

import itertools

import pytest

from scheduler import models
from scheduler.core.instants import to_us
from scheduler.core.vocabulary import Kind
from scheduler.tick import traces
from tests.scheduler import places

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def exporter(monkeypatch):
    """Spans of this process, at once."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "find_tracer", lambda: provider.get_tracer("test"))
    return exporter


def spans_by_trace(exporter):
    found = {}
    for span in exporter.get_finished_spans():
        found.setdefault(span.context.trace_id, {})[span.name] = span
    return list(found.values())


@pytest.fixture
def place(ticker):
    return places.card().department("d", quota="1").project("p", of="d", quota="1")


def test_a_start_is_one_trace_from_the_submission_to_running_work(ticker, place, exporter):
    # Given a service that waits nine seconds for its turn and takes five to be ready
    ticker.engine.advance(9)
    chat = place.submit("chat", of="p", gpu="0.5", kind=Kind.INFERENCE, command=["fake", "ready=5"])
    ticker.settle(ticks=8)
    # Then one trace tells of it
    (trace,) = spans_by_trace(exporter)
    whole = trace["start of work"]
    assert whole.parent is None
    assert whole.attributes["tidegate.workload.name"] == "chat"
    assert whole.attributes["tidegate.project.name"] == "p"
    assert whole.attributes["tidegate.replica.mgpu"] == 500
    # And its steps follow each other without a gap, by the instants of the tables
    replica = models.Replica.objects.get(workload=chat)
    instants = [chat.submitted_at, replica.booked_at, replica.launched_at, replica.running_at]
    at_ns = [to_us(at) * 1000 for at in instants]
    steps = [trace[name] for name in ("wait for its turn", "launch", "become ready")]
    assert [(step.start_time, step.end_time) for step in steps] == list(itertools.pairwise(at_ns))
    assert all(step.parent.span_id == whole.context.span_id for step in steps)
    assert (whole.start_time, whole.end_time) == (at_ns[0], at_ns[-1])
    assert at_ns[1] - at_ns[0] >= 9 * 10**9


def test_a_start_after_an_interruption_is_a_trace_of_its_own(ticker, place, exporter):
    train = place.submit("train", of="p", gpu="1", command=["fake"])
    ticker.settle()
    ticker.engine.kill(ticker.key(train))
    ticker.settle(ticks=40)
    first, second = spans_by_trace(exporter)
    ended = models.Replica.objects.filter(workload=train).order_by("pk")[0].ended_at
    assert second["start of work"].start_time == to_us(ended) * 1000
    assert second["start of work"].start_time > first["start of work"].end_time


def test_without_an_exporter_nothing_is_made(ticker, place, settings):
    settings.OTEL_ENDPOINT = ""
    traces.find_tracer.cache_clear()
    assert traces.find_tracer() is None
    place.submit("train", of="p", gpu="1", command=["fake"])
    ticker.settle()
    assert place.phase("train") == "running"


def test_with_an_exporter_named_spans_go_out_by_otlp(settings, monkeypatch):
    settings.OTEL_ENDPOINT = "http://127.0.0.1:9"
    traces.find_tracer.cache_clear()
    tracer = traces.find_tracer()
    try:
        assert tracer is not None
        assert tracer.resource.attributes["service.name"] == "tidegate"
    finally:
        tracer.span_processor.shutdown()
        traces.find_tracer.cache_clear()
