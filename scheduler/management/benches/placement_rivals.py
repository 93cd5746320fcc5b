"""Policies to compare with, as the FGD paper defines them: six, FGD itself among them.

A score is a whole number, more is better, and the truncation is part of the policy: it makes many
nodes equal, among which the first in the run's own order of nodes wins.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Protocol

from scheduler.core.units import WHOLE_GPU_MGPU
from scheduler.management.benches.openb import Ask, PodList, TraceNode

#: By what the paper divides free amounts: the largest node of the trace.
_MOST_CPU_MILLI, _MOST_MGPU = 128_000, 8_000
#: The mix is made of the most frequent pods, up to this share of all.
_COVERED_PERCENT = 95


class Host:
    """One node with what is free on it. ``version`` changes whenever that does."""

    __slots__ = ("classes", "cpu_milli", "free", "memory_mib", "model", "version")

    def __init__(self, node: TraceNode) -> None:
        self.cpu_milli = node.cpu_milli
        self.memory_mib = node.memory_mib
        self.model = node.model
        self.free = (WHOLE_GPU_MGPU,) * node.devices
        #: The classes of the pods with GPU that are here.
        self.classes: frozenset[int] = frozenset()
        self.version = 0

    def takes(self, ask: Ask) -> bool:
        """Test whether ``ask`` fits here."""
        if self.cpu_milli < ask.cpu_milli or self.memory_mib < ask.memory_mib:
            return False
        if ask.models and ask.devices and self.model not in ask.models:
            return False
        return sum(free >= ask.mgpu for free in self.free) >= ask.devices

    def put(self, ask: Ask, device: int) -> None:
        """Take ``ask``, of a single device the one at ``device``."""
        self.cpu_milli -= ask.cpu_milli
        self.memory_mib -= ask.memory_mib
        self.free = without(self.free, ask, device)
        if ask.devices:
            self.classes |= {class_of(ask)}
        self.version += 1


def class_of(ask: Ask) -> int:
    """Return the class that pods are clustered by: 0 for a share of a GPU, else how many GPUs."""
    return ask.devices if ask.mgpu == WHOLE_GPU_MGPU else 0


def without(free: tuple[int, ...], ask: Ask, device: int) -> tuple[int, ...]:
    """Return what is left of ``free``: whole devices are taken from the lowest index on."""
    left = list(free)
    if ask.devices == 1:
        left[device] -= ask.mgpu
        return tuple(left)
    whole = [at for at, mgpu in enumerate(left) if mgpu == WHOLE_GPU_MGPU]
    for at in whole[: ask.devices]:
        left[at] = 0
    return tuple(left)


class Score(Protocol):
    """Rates a place that is there."""

    def rate(self, host: Host, ask: Ask) -> tuple[int, int]:
        """Return the score of ``host`` and the device for a request of one device."""


class BestFit:
    """The node that keeps the least free CPU and GPU, the device that fits most tightly."""

    def rate(self, host: Host, ask: Ask) -> tuple[int, int]:
        """Return the score of ``host`` and the device for a request of one device."""
        cpu = (host.cpu_milli - ask.cpu_milli) / _MOST_CPU_MILLI
        gpu = (sum(host.free) - ask.total_mgpu) / _MOST_MGPU
        return int(100 * (1 - (0.5 * cpu + 0.5 * gpu))), _tightest(host, ask)


class DotProd:
    """The node whose free CPU and GPU, as a vector, point least where the request does."""

    def rate(self, host: Host, ask: Ask) -> tuple[int, int]:
        """Return the score of ``host`` and the device for a request of one device."""
        cpu = host.cpu_milli / _MOST_CPU_MILLI * (ask.cpu_milli / _MOST_CPU_MILLI)
        gpu = sum(host.free) / _MOST_MGPU * (ask.total_mgpu / _MOST_MGPU)
        return int(100 * (1 - (cpu + gpu) / 2)), _tightest(host, ask)


class GpuPacking:
    """First GPUs in use, the fullest first, then free ones of nodes in use, then empty nodes."""

    def rate(self, host: Host, ask: Ask) -> tuple[int, int]:
        """Return the score of ``host`` and the device for a request of one device."""
        if not ask.devices:
            return 0, 0
        device = _tightest(host, ask)
        unused = sum(free == WHOLE_GPU_MGPU for free in host.free)
        if unused == len(host.free):
            return max(33 - unused, unused), device
        opened = ask.devices if ask.devices > 1 else int(host.free[device] == WHOLE_GPU_MGPU)
        if opened:
            return max(50 - opened, 33), device
        return max(100 - host.free[device] // 100, 50), device


class GpuClustering:
    """Nodes that hold pods of the same class, and only such, first; among them the fullest."""

    def rate(self, host: Host, ask: Ask) -> tuple[int, int]:
        """Return the score of ``host`` and the device for a request of one device."""
        if not ask.devices:
            return 0, 0
        own = class_of(ask)
        score = 25 * (_MOST_MGPU - sum(host.free)) // _MOST_MGPU
        if host.classes == {own}:
            score += 75
        elif own in host.classes:
            score += 50
        elif not host.classes:
            score += 25
        return score, _tightest(host, ask)


class Fgd:
    """Fragmentation gradient descent: the place after which least is fragmented for the mix."""

    def __init__(self, pods: PodList) -> None:
        counts = Counter(
            (ask.cpu_milli, ask.mgpu, ask.devices, ask.models)
            for ask in (pods.asks[at] for at in pods.pods)
        )
        self._mix: list[tuple[int, tuple[int, int, int, frozenset[str]]]] = []
        self._covered = 0
        for key, count in counts.most_common():
            self._mix.append((count, key))
            self._covered += count
            if self._covered * 100 >= _COVERED_PERCENT * len(pods.pods):
                break
        self._rows: dict[tuple[str, tuple[int, ...]], _Rows] = {}
        self._fragments: dict[tuple[str, tuple[int, ...], int], int] = {}

    def rate(self, host: Host, ask: Ask) -> tuple[int, int]:
        """Return the score of ``host`` and the device for a request of one device."""
        before = self._fragment(host.model, host.free, host.cpu_milli)
        cpu_milli = host.cpu_milli - ask.cpu_milli
        best, chosen = -1, 0
        seen = set()
        for device in range(len(host.free)) if ask.devices == 1 else (0,):
            if ask.devices == 1 and (host.free[device] < ask.mgpu or host.free[device] in seen):
                continue
            seen.add(host.free[device])
            after = self._fragment(host.model, without(host.free, ask, device), cpu_milli)
            gain = (before - after) / self._covered / WHOLE_GPU_MGPU
            score = int(100 / (1 + math.exp(-gain)))
            if score > best:
                best, chosen = score, device
        return best, chosen

    def _fragment(self, model: str, free: tuple[int, ...], cpu_milli: int) -> int:
        """Return the idle milli-GPU that pods of the mix can't use, times how many ask."""
        alike = tuple(sorted(free))
        key = (model, alike, cpu_milli)
        known = self._fragments.get(key)
        if known is None:
            rows = self._rows.get(key[:2])
            if rows is None:
                rows = self._rows[key[:2]] = self._make_rows(model, alike)
            idle, known = rows[:2]
            for least_cpu, count, unusable in rows[2]:
                known += count * (idle if cpu_milli < least_cpu else unusable)
            self._fragments[key] = known
        return known

    def _make_rows(self, model: str, free: tuple[int, ...]) -> _Rows:
        idle = sum(free)
        fixed = 0
        rows = []
        for count, (cpu_milli, mgpu, devices, models) in self._mix:
            fitting = [each for each in free if each >= mgpu]
            if not devices or (models and model not in models) or len(fitting) < devices:
                fixed += count * idle
            else:
                rows.append((cpu_milli, count, idle - sum(fitting)))
        return idle, fixed, rows


#: Idle milli-GPU, what no CPU could help, and (CPU needed, how many ask, unusable all the same).
_Rows = tuple[int, int, list[tuple[int, int, int]]]


class ScoredBoard:
    """All nodes under one score, in a fixed order: a heap of places for each kind of request."""

    def __init__(self, nodes: Sequence[TraceNode], *, score: Score) -> None:
        self._hosts = [Host(node) for node in nodes]
        self._score = score
        self._log: list[int] = []
        self._heaps: dict[Ask, tuple[list[tuple[int, int, int, int]], int]] = {}

    def place(self, ask: Ask) -> bool:
        """Put ``ask`` where the score is best; False: it fits nowhere."""
        heap, at = self._heaps.get(ask, ([], -1))
        changed = range(len(self._hosts)) if at < 0 else sorted({*self._log[at:]})
        for position in changed:
            host = self._hosts[position]
            if host.takes(ask):
                score, device = self._score.rate(host, ask)
                heapq.heappush(heap, (-score, position, host.version, device))
        self._heaps[ask] = (heap, len(self._log))
        while heap and self._hosts[heap[0][1]].version != heap[0][2]:
            heapq.heappop(heap)
        if not heap:
            return False
        _, position, _, device = heap[0]
        self._hosts[position].put(ask, device)
        self._log.append(position)
        return True


class RandomBoard:
    """All nodes, of which any that fits is taken, and any device that fits."""

    def __init__(self, nodes: Sequence[TraceNode], *, seed: int) -> None:
        self._hosts = [Host(node) for node in nodes]
        self._draw = Random(seed)

    def place(self, ask: Ask) -> bool:
        """Put ``ask`` anywhere; False: it fits nowhere."""
        able = [host for host in self._hosts if host.takes(ask)]
        if not able:
            return False
        host = self._draw.choice(able)
        fitting = [at for at, free in enumerate(host.free) if free >= ask.mgpu]
        host.put(ask, self._draw.choice(fitting) if ask.devices == 1 else 0)
        return True


def _tightest(host: Host, ask: Ask) -> int:
    if ask.devices != 1:
        return 0
    return min((free, at) for at, free in enumerate(host.free) if free >= ask.mgpu)[1]
