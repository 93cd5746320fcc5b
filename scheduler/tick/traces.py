"""OpenTelemetry traces: from a submission, or from the wait after an interruption, to running work.

Made when a replica is seen to run, from the instants that the tables hold: nothing has to be carried from
process to process. Off unless an exporter is named; a trace that can't be sent costs no tick anything.
"""

from __future__ import annotations

import logging
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from scheduler import models
from scheduler.core.instants import to_us

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

log = logging.getLogger(__name__)

SERVICE = "tidegate"


def tell_start(replica: models.Replica) -> None:
    """Send the trace of a start once what says that it runs is committed."""
    tracer = find_tracer()
    if tracer is not None:
        transaction.on_commit(partial(_send, tracer, replica))


@cache
def find_tracer() -> Tracer | None:
    """Return what makes spans in this process; None where no exporter is named, or it is not installed."""
    if not settings.OTEL_ENDPOINT:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.exception("traces.not_installed")  # `up` installs it where the exporter is named
        return None
    provider = TracerProvider(resource=Resource.create({"service.name": SERVICE}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer(SERVICE)


def _send(tracer: Tracer, replica: models.Replica) -> None:
    from opentelemetry.trace import set_span_in_context

    workload = replica.workload
    began = _wait_began(replica)
    steps = (
        ("wait for its turn", began, replica.booked_at),
        ("launch", replica.booked_at, replica.launched_at),
        ("become ready", replica.launched_at, replica.running_at),
    )
    whole = tracer.start_span(
        "start of work",
        start_time=_ns(began),
        attributes={
            "tidegate.workload.id": workload.pk,
            "tidegate.workload.name": workload.name,
            "tidegate.workload.kind": workload.kind,
            "tidegate.project.name": workload.project.name,
            "tidegate.replica.id": replica.pk,
            "tidegate.replica.ordinal": replica.ordinal,
            "tidegate.replica.mgpu": replica.mgpu,
            "tidegate.node.name": replica.node.name,
            "tidegate.restart_count": workload.restart_count,
        },
    )
    inside = set_span_in_context(whole)
    for name, begins, ends in steps:
        if begins is not None and ends is not None:
            step = tracer.start_span(name, context=inside, start_time=_ns(begins))
            step.end(end_time=_ns(max(begins, ends)))
    whole.end(end_time=_ns(max(began, replica.running_at or began)))


def _wait_began(replica: models.Replica) -> datetime:
    """Return when it was submitted, or when the start before this one ended."""
    before = models.Replica.objects.filter(
        workload_id=replica.workload_id, ordinal=replica.ordinal, pk__lt=replica.pk
    )
    ended = before.order_by("-pk").values_list("ended_at", flat=True).first()
    return ended or replica.workload.submitted_at


def _ns(at: datetime) -> int:
    return to_us(at) * 1000
