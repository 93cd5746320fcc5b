"""How many replicas a service wants: Knative's algorithm, as a function of (history, parameters, now).

Everything is an integer: demand comes as request-microseconds for each second, averages are kept as
fractions, and the only rounding is the ceiling of the algorithm itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

SECOND_US = 1_000_000
PANIC_THRESHOLD_PERCENT = 200
PANIC_WINDOW_PERCENT = 10
MAX_SCALE_UP_RATE = 1000
MAX_SCALE_DOWN_RATE = 2
#: Readings of latency and custom numbers this near to the threshold change nothing.
TOLERANCE_PERCENT = 10


class Metric(StrEnum):
    """What is compared with the threshold, for each replica."""

    CONCURRENCY = "concurrency"  # requests in flight, those that wait included
    THROUGHPUT = "throughput"  # requests a second
    LATENCY = "latency"  # mean milliseconds of a request
    CUSTOM = "custom"  # a number that the replicas show


#: Metrics that Knative's own autoscaler serves; with the others a service never goes to zero.
DEMAND_METRICS = (Metric.CONCURRENCY, Metric.THROUGHPUT)


class Cause(StrEnum):
    """What settled the number."""

    LOAD = "load"
    PANIC = "panic"
    ACTIVATION = "activation"  # it leaves zero
    INITIAL = "initial"  # not yet reached since its creation
    DELAY = "delay"  # the scale-down delay holds it
    KEPT = "kept"  # near zero: the last replica lives on for a while
    IDLE = "idle"  # to zero
    BOUNDS = "bounds"  # the minimum or the maximum
    BLIND = "blind"  # data is missing: nothing goes down


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """A service's settings."""

    min_replicas: int
    max_replicas: int
    #: None: by activity alone.
    metric: Metric | None = None
    threshold: int = 100
    target_percent: int = 70
    initial_replicas: int = 1
    activation_replicas: int = 1
    #: 0: none. It caps the threshold of concurrency.
    hard_limit: int = 0
    stable_window_s: int = 60
    zero_grace_s: int = 30
    zero_retention_s: int = 0
    scale_down_delay_s: int = 0

    @property
    def panic_window_s(self) -> int:
        """Return the short window: a tenth of the stable one, at least a second."""
        return max(1, self.stable_window_s * PANIC_WINDOW_PERCENT // 100)

    @property
    def target_centi(self) -> int:
        """Return the target of one replica in hundredths, at least 0.01."""
        threshold = self.threshold
        if self.metric in (None, Metric.CONCURRENCY) and self.hard_limit:
            threshold = min(threshold, self.hard_limit)
        if self.metric in (None, *DEMAND_METRICS):
            return max(1, threshold * self.target_percent)
        return threshold * 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """One second of a service's demand, over all gateway processes."""

    #: Sum over requests of the part of the second in which they were in flight or waiting.
    request_us: int = 0
    arrived: int = 0
    finished: int = 0
    latency_us: int = 0
    #: Sum and count of readings of the custom number, in thousandths.
    gauge_milli: int = 0
    gauges: int = 0

    def plus(self, other: Bucket) -> Bucket:
        """Return both together."""
        return Bucket(
            request_us=self.request_us + other.request_us,
            arrived=self.arrived + other.arrived,
            finished=self.finished + other.finished,
            latency_us=self.latency_us + other.latency_us,
            gauge_milli=self.gauge_milli + other.gauge_milli,
            gauges=self.gauges + other.gauges,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is known of a service: recorded demand and its replicas now."""

    #: By second since 1970; a covered second without a bucket had no demand.
    buckets: Mapping[int, Bucket] = field(default_factory=dict)
    #: Seconds in which some gateway reported. The others are unknown, which is not zero.
    covered: frozenset[int] = frozenset()
    in_flight: int = 0
    waiting: int = 0
    #: Replicas that answer, and those that were started and don't answer yet.
    ready: int = 0
    starting: int = 0
    #: How many are wanted until now.
    desired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one decision leaves for the next."""

    #: The second in which this autoscaler began; windows are not longer than its life.
    began_s: int | None = None
    panic_since_us: int | None = None
    panic_most: int = 0
    initial_reached: bool = False
    #: Since when a replica answers without a break at zero.
    active_since_us: int | None = None
    #: Since when no demand is left in the stable window.
    idle_since_us: int | None = None
    #: (at_us, desired) over the scale-down delay, the oldest first.
    recent: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many are wanted, why, and what to remember."""

    desired: int
    cause: Cause
    memory: Memory
    panicking: bool = False
    blind: bool = False
    #: The metric in thousandths over both windows; None where nothing is known of it.
    value_milli: int | None = None
    panic_value_milli: int | None = None
    target_milli: int = 0


def decide(*, history: History, parameters: Parameters, memory: Memory, now_us: int) -> Verdict:
    """Return how many replicas are wanted at ``now_us``."""
    memory = _begin(history, memory, now_us)
    if parameters.metric in (Metric.LATENCY, Metric.CUSTOM):
        verdict = _by_value(history, parameters, memory, now_us)
    else:
        verdict = _by_demand(history, parameters, memory, now_us)
    if verdict.blind and verdict.desired < history.desired:
        verdict = replace(verdict, desired=history.desired, cause=Cause.BLIND)
    if parameters.scale_down_delay_s:
        verdict = _delayed(verdict, parameters.scale_down_delay_s, now_us)
    verdict = _bounded(verdict, history, parameters)
    if verdict.desired == 0:
        return _last_one(verdict, history, parameters, now_us)
    return replace(verdict, memory=replace(verdict.memory, idle_since_us=None))


def _begin(history: History, memory: Memory, now_us: int) -> Memory:
    """Note the first sight of a service; one that begins with several replicas begins in panic."""
    if memory.began_s is None:
        memory = replace(memory, began_s=now_us // SECOND_US)
        if history.ready > 1:
            memory = replace(memory, panic_since_us=now_us, panic_most=history.ready)
    if history.ready and memory.active_since_us is None:
        memory = replace(memory, active_since_us=now_us)
    if not history.ready and not history.starting and not history.desired:
        memory = replace(memory, active_since_us=None)
    return memory


# --- Windows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The sum over the last whole seconds of which something is known."""

    total: Bucket
    #: Seconds that are known, and those that should be.
    known_s: int
    length_s: int

    @property
    def is_whole(self) -> bool:
        """Test whether no second is missing."""
        return self.known_s == self.length_s


def sum_window(*, history: History, began_s: int, length_s: int, now_us: int) -> Window:
    """Sum the ``length_s`` whole seconds before now, but none from before ``began_s``."""
    end_s = now_us // SECOND_US
    start_s = max(end_s - length_s, min(began_s, end_s - 1))
    total, known = Bucket(), 0
    for second in range(start_s, end_s):
        bucket = history.buckets.get(second)
        if bucket is None and second not in history.covered:
            continue
        known += 1
        if bucket is not None:
            total = total.plus(bucket)
    return Window(total=total, known_s=known, length_s=end_s - start_s)


def _measure(window: Window, metric: Metric | None) -> tuple[int, int] | None:
    """Return the metric over a window as a fraction (dividend, divisor), or None: nothing known."""
    total = window.total
    match metric:
        case None | Metric.CONCURRENCY:
            return (total.request_us, window.known_s * SECOND_US) if window.known_s else None
        case Metric.THROUGHPUT:
            return (total.arrived, window.known_s) if window.known_s else None
        case Metric.LATENCY:
            return (total.latency_us, total.finished * 1000) if total.finished else None
        case Metric.CUSTOM:
            return (total.gauge_milli, total.gauges * 1000) if total.gauges else None


def _milli(fraction: tuple[int, int] | None) -> int | None:
    return None if fraction is None else fraction[0] * 1000 // fraction[1]


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


# --- Concurrency and throughput: Knative's own autoscaler ------------------------------------------


def _by_demand(history: History, parameters: Parameters, memory: Memory, now_us: int) -> Verdict:
    began_s = memory.began_s if memory.began_s is not None else now_us // SECOND_US
    stable = sum_window(
        history=history, began_s=began_s, length_s=parameters.stable_window_s, now_us=now_us
    )
    panic = sum_window(
        history=history, began_s=began_s, length_s=parameters.panic_window_s, now_us=now_us
    )
    stable_value = _measure(stable, parameters.metric)
    panic_value = _measure(panic, parameters.metric)
    ready = max(1, history.ready)
    raw_stable = _replicas_for(stable_value, parameters.target_centi)
    raw_panic = _replicas_for(panic_value, parameters.target_centi)
    most, least = ready * MAX_SCALE_UP_RATE, ready // MAX_SCALE_DOWN_RATE
    by_stable = _activated(min(max(raw_stable, least), most), raw_stable, parameters)
    by_panic = _activated(min(max(raw_panic, least), most), raw_panic, parameters)
    is_over = raw_panic * 100 >= PANIC_THRESHOLD_PERCENT * ready
    memory = _panic(memory, is_over, parameters.stable_window_s, now_us)
    desired, cause = by_stable, Cause.LOAD
    panicking = memory.panic_since_us is not None
    if panicking:
        memory = replace(memory, panic_most=max(memory.panic_most, by_stable, by_panic))
        desired, cause = memory.panic_most, Cause.PANIC
    if desired == 0 and (history.waiting or history.in_flight):
        desired, cause = parameters.activation_replicas, Cause.ACTIVATION
    return Verdict(
        desired=desired,
        cause=cause,
        memory=memory,
        panicking=panicking,
        blind=not stable.is_whole,
        value_milli=_milli(stable_value),
        panic_value_milli=_milli(panic_value),
        target_milli=parameters.target_centi * 10,
    )


def _replicas_for(value: tuple[int, int] | None, target_centi: int) -> int:
    """Return the replicas that carry ``value`` at the target each, rounded up."""
    if value is None:
        return 0
    return _ceil(value[0] * 100, value[1] * target_centi)


def _activated(count: int, raw: int, parameters: Parameters) -> int:
    """Return ``count``, raised to the activation number where there is any demand."""
    if parameters.activation_replicas > 1 and raw > 0:
        return max(count, parameters.activation_replicas)
    return count


def _panic(memory: Memory, is_over: bool, stable_window_s: int, now_us: int) -> Memory:  # noqa: FBT001
    """Enter or extend panic while demand is over its threshold; leave it a stable window after."""
    if is_over:
        return replace(memory, panic_since_us=now_us)
    since = memory.panic_since_us
    if since is not None and now_us - since > stable_window_s * SECOND_US:
        return replace(memory, panic_since_us=None, panic_most=0)
    return memory


# --- Latency and custom numbers: the ordinary pod autoscaler ---------------------------------------


def _by_value(history: History, parameters: Parameters, memory: Memory, now_us: int) -> Verdict:
    """Return ready x value / threshold, rounded up; down only to the most of a stable window."""
    began_s = memory.began_s if memory.began_s is not None else now_us // SECOND_US
    stable = sum_window(
        history=history, began_s=began_s, length_s=parameters.stable_window_s, now_us=now_us
    )
    panic = sum_window(
        history=history, began_s=began_s, length_s=parameters.panic_window_s, now_us=now_us
    )
    value = _measure(panic, parameters.metric)
    wanted = _wanted_by_value(value, stable, history, parameters)
    memory = _remember(memory, wanted, parameters.stable_window_s, now_us)
    most_recent = max(count for _, count in memory.recent)
    return Verdict(
        desired=wanted if wanted >= history.desired else min(most_recent, history.desired),
        cause=Cause.LOAD,
        memory=memory,
        blind=not stable.is_whole,
        value_milli=_milli(_measure(stable, parameters.metric)),
        panic_value_milli=_milli(value),
        target_milli=parameters.target_centi * 10,
    )


def _wanted_by_value(
    value: tuple[int, int] | None, stable: Window, history: History, parameters: Parameters
) -> int:
    """Return the number that brings the value to its threshold; as it is where nothing is known."""
    if value is None:
        unasked = parameters.metric is Metric.LATENCY and stable.is_whole
        if unasked and not stable.total.request_us and not history.in_flight:
            return max(1, parameters.min_replicas)
        return max(1, history.desired)
    threshold = value[1] * parameters.threshold
    if abs(value[0] - threshold) * 100 <= TOLERANCE_PERCENT * threshold:
        return max(1, history.desired)
    return max(1, _ceil(max(1, history.ready) * value[0], threshold))


# --- What both share -------------------------------------------------------------------------------


def _remember(memory: Memory, count: int, length_s: int, now_us: int) -> Memory:
    """Add a number to those of the last ``length_s`` seconds; only what can be the most is kept."""
    after_us = now_us - length_s * SECOND_US
    larger = [
        (at_us, known) for at_us, known in memory.recent if at_us > after_us and known > count
    ]
    return replace(memory, recent=(*larger, (now_us, count)))


def _delayed(verdict: Verdict, delay_s: int, now_us: int) -> Verdict:
    """Return the most that was wanted within the delay."""
    memory = _remember(verdict.memory, verdict.desired, delay_s, now_us)
    most = max(count for _, count in memory.recent)
    cause = Cause.DELAY if most > verdict.desired else verdict.cause
    return replace(verdict, desired=most, cause=cause, memory=memory)


def _bounded(verdict: Verdict, history: History, parameters: Parameters) -> Verdict:
    """Keep the number between the minimum (the initial one until reached) and the maximum."""
    least, cause = parameters.min_replicas, Cause.BOUNDS
    memory = verdict.memory
    if not memory.initial_reached:
        if history.ready >= parameters.initial_replicas:
            memory = replace(memory, initial_reached=True)
        else:
            least, cause = max(least, parameters.initial_replicas), Cause.INITIAL
    if parameters.metric in (Metric.LATENCY, Metric.CUSTOM):
        least = max(1, least)
    desired = min(max(verdict.desired, least), parameters.max_replicas)
    if desired == verdict.desired:
        cause = verdict.cause
    return replace(verdict, desired=desired, cause=cause, memory=memory)


def _last_one(verdict: Verdict, history: History, parameters: Parameters, now_us: int) -> Verdict:
    """Let the last replica live until it was ready for a stable window and idle for the grace.

    A replica that still starts is not taken away: the idle clock begins when it answers.
    """
    memory = verdict.memory
    if history.desired == 0:
        return replace(verdict, cause=Cause.IDLE)
    if not history.ready:
        if history.starting:
            return replace(verdict, desired=history.desired, cause=Cause.KEPT)
        return replace(verdict, cause=Cause.IDLE)
    kept = replace(verdict, desired=1, cause=Cause.KEPT)
    active_us = now_us - (memory.active_since_us or now_us)
    if active_us < parameters.stable_window_s * SECOND_US:
        return kept
    if memory.idle_since_us is None:
        memory = replace(memory, idle_since_us=now_us)
    wait_s = max(parameters.zero_grace_s, parameters.zero_retention_s)
    if now_us - (memory.idle_since_us or now_us) < wait_s * SECOND_US:
        return replace(kept, memory=memory)
    return replace(verdict, cause=Cause.IDLE, memory=replace(memory, idle_since_us=None))


def join_buckets(*, parts: Iterable[tuple[int, Bucket]]) -> dict[int, Bucket]:
    """Return buckets by second, those of several gateways added up."""
    joined: dict[int, Bucket] = {}
    for second, bucket in parts:
        known = joined.get(second)
        joined[second] = bucket if known is None else known.plus(bucket)
    return joined
