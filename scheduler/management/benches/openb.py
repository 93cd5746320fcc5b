"""The openb trace (Alibaba, cluster-trace-gpu-v2023) as the FGD paper reads it: nodes, pods, arrivals."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from django.core.management.base import CommandError

from scheduler.core.units import WHOLE_GPU_MGPU

NODES_FILE = "openb_node_list_gpu_node.csv"
PODS_PREFIX, PODS_SUFFIX = "openb_pod_list_", ".csv"
#: How much GPU is asked for in all, in percent of what there is.
ARRIVED_PERCENT = 130
#: What a pod that asks for no CPU counts as.
LEAST_CPU_MILLI = 100


class TraceMissing(CommandError):
    """The folder that was named doesn't hold the trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceNode:
    """One machine of the trace: ``devices`` GPUs of one model."""

    name: str
    cpu_milli: int
    memory_mib: int
    devices: int
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a pod asks for. Pods that ask for the same are one ``Ask``."""

    cpu_milli: int
    memory_mib: int
    devices: int
    #: Of each device.
    mgpu: int
    #: Accepted models; empty: any.
    models: frozenset[str]

    @property
    def total_mgpu(self) -> int:
        """The GPU of all its devices."""
        return self.devices * self.mgpu


@dataclass(frozen=True, slots=True, kw_only=True)
class PodList:
    """The pods of one file, by name: ``asks`` are distinct, ``pods`` are positions in them."""

    name: str
    asks: tuple[Ask, ...]
    pods: tuple[int, ...]


def read_nodes(folder: Path) -> tuple[TraceNode, ...]:
    """Return the GPU nodes of the trace.

    Raises:
        TraceMissing: the folder has no such file.
    """
    return tuple(
        TraceNode(
            name=row["sn"],
            cpu_milli=int(row["cpu_milli"]),
            memory_mib=int(row["memory_mib"]),
            devices=int(row["gpu"]),
            model=row["model"],
        )
        for row in read_rows(_found(folder, NODES_FILE))
    )


def read_pod_lists(folder: Path) -> tuple[PodList, ...]:
    """Return every pod list in ``folder``, the default one first.

    Raises:
        TraceMissing: there is none.
    """
    files = {
        path.name.removeprefix(PODS_PREFIX).partition(PODS_SUFFIX)[0]: path
        for path in sorted(folder.glob(f"{PODS_PREFIX}*{PODS_SUFFIX}*"))
    }
    if not files:
        raise TraceMissing(f"{folder} has no {PODS_PREFIX}NAME{PODS_SUFFIX} or .csv.gz in it")
    return tuple(
        _read_pods(name, files[name]) for name in sorted(files, key=lambda n: (n != "default", n))
    )


def arrivals(pods: PodList, *, total_mgpu: int, seed: int) -> list[int]:
    """Return positions in ``pods.asks`` in order of arrival: shuffled, then cut or drawn to size."""
    draw = Random(seed)
    listed = list(pods.pods)
    draw.shuffle(listed)
    asked = sum(pods.asks[at].total_mgpu for at in listed)
    target = total_mgpu * ARRIVED_PERCENT // 100
    while asked > target:
        asked -= pods.asks[listed.pop(draw.randrange(len(listed)))].total_mgpu
    while True:
        at = pods.pods[draw.randrange(len(pods.pods))]
        if asked + pods.asks[at].mgpu > target:  # of one device, as the paper's own code counts
            return listed
        listed.append(at)
        asked += pods.asks[at].total_mgpu


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, packed or not, by the names in its first line."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", newline="") as packed:
            yield from csv.DictReader(packed)
        return
    with path.open(encoding="utf-8", newline="") as plain:
        yield from csv.DictReader(plain)


def _found(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise TraceMissing(f"{folder} has no {name} in it")


def _read_pods(name: str, path: Path) -> PodList:
    known: dict[Ask, int] = {}
    named = []
    for row in read_rows(path):
        ask = _ask_of(row)
        named.append((row["name"], known.setdefault(ask, len(known))))
    return PodList(name=name, asks=tuple(known), pods=tuple(at for _, at in sorted(named)))


def _ask_of(row: dict[str, str]) -> Ask:
    devices = int(row["num_gpu"])
    mgpu = int(row["gpu_milli"]) if devices == 1 else WHOLE_GPU_MGPU if devices else 0
    models = (row.get("gpu_spec") or "").split("|")
    return Ask(
        cpu_milli=int(row["cpu_milli"]) or LEAST_CPU_MILLI,
        memory_mib=int(row["memory_mib"]),
        devices=devices,
        mgpu=mgpu,
        models=frozenset(model for model in models if model),
    )
