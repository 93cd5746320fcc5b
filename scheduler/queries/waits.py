"""When workloads waited: alive and holding nothing. Out of the ledger and what people did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.db.models import Q, QuerySet

from scheduler import models
from scheduler.core.instants import to_us as instant_us
from scheduler.core.vocabulary import END_PHASES
from scheduler.queries.visibility import Visibility

#: From and to in microseconds; None: it goes on.
Span = tuple[int, int | None]

_BEGINS = "start_requested"
_ENDS = tuple(phase.value for phase in END_PHASES)
#: An end is noticed a moment after its devices are free: that moment is no waiting.
_NOTICED_US = 2_000_000


@dataclass(slots=True)
class _Life:
    """One workload's times between a submission or start by a person and an end."""

    begins_us: int
    spans: list[Span] = field(default_factory=list)
    open: bool = True

    def note(self, code: str, at_us: int) -> None:
        if code == _BEGINS and not self.open:
            self.begins_us, self.open = at_us, True
        elif code in _ENDS and self.open:
            self.spans.append((self.begins_us, at_us))
            self.open = False

    def closed(self, ended_us: int | None) -> list[Span]:
        return [*self.spans, (self.begins_us, ended_us)] if self.open else self.spans


def read_waits(
    *, visible: Visibility, pool_id: int, start_us: int, held: Iterable[tuple[int, int, int | None]]
) -> Iterator[tuple[int, int]]:
    """Yield (time, change of how many wait) from ``start_us`` on. Two queries.

    ``held``: (workload id, from, to) of the ledger's intervals since then.
    """
    for _workload_id, (from_us, to_us) in read_wait_spans(
        visible=visible, pool_id=pool_id, start_us=start_us, held=held
    ):
        yield max(start_us, from_us), 1
        if to_us is not None:
            yield to_us, -1


def read_wait_spans(
    *, visible: Visibility, pool_id: int, start_us: int, held: Iterable[tuple[int, int, int | None]]
) -> Iterator[tuple[int, Span]]:
    """Yield (workload id, span of waiting), those that had ended by ``start_us`` left out."""
    holds: dict[int, list[Span]] = defaultdict(list)
    for workload_id, from_us, to_us in held:
        holds[workload_id].append((from_us, to_us))
    for workload_id, life in _lives(visible, pool_id, start_us).items():
        for from_us, to_us in gaps(life, holds[workload_id]):
            if to_us is None or to_us > start_us:
                yield workload_id, (from_us, to_us)


def gaps(alive: Sequence[Span], held: Sequence[Span]) -> list[Span]:
    """Return the parts of ``alive`` in which nothing was held, without the moment before an end."""
    found: list[Span] = []
    busy = sorted(held, key=lambda span: span[0])
    for begins_us, ends_us in alive:
        at_us: int | None = begins_us
        for from_us, to_us in busy:
            if at_us is None or (ends_us is not None and from_us >= ends_us):
                break
            if from_us > at_us:
                found.append((at_us, from_us))
            at_us = None if to_us is None else max(at_us, to_us)
        if at_us is None or (ends_us is not None and ends_us - at_us < _NOTICED_US):
            continue
        found.append((at_us, ends_us))
    return found


def _lives(visible: Visibility, pool_id: int, start_us: int) -> dict[int, list[Span]]:
    start_at = datetime.fromtimestamp(start_us / 1_000_000, tz=UTC)
    return lives_of(
        models.Workload.objects.filter(
            Q(ended_at__isnull=True) | Q(ended_at__gt=start_at),
            visible.projects(prefix="project__"),
            pool_id=pool_id,
            deleted_at__isnull=True,
        )
    )


def lives_of(rows: QuerySet[models.Workload]) -> dict[int, list[Span]]:
    """Return, of each workload, its times between a submission or start and an end. Two queries."""
    lives: dict[int, _Life] = {}
    ends: dict[int, int | None] = {}
    for pk, submitted_at, ended_at in rows.values_list("id", "submitted_at", "ended_at"):
        lives[pk] = _Life(begins_us=instant_us(submitted_at))
        ends[pk] = None if ended_at is None else instant_us(ended_at)
    events = models.WorkloadEvent.objects.filter(
        workload__in=rows.values("id"), code__in=(_BEGINS, *_ENDS)
    ).order_by("at", "id")
    for pk, code, at in events.values_list("workload_id", "code", "at"):
        if pk in lives:
            lives[pk].note(code, instant_us(at))
    return {pk: life.closed(ends[pk]) for pk, life in lives.items()}
