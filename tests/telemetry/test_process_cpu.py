"""The stand-in: CPU time against the share. Busy, idle, waiting for a CPU, and unknown."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler.host.processes import TICK_US
from scheduler.telemetry.base import SampleTarget
from scheduler.telemetry.process_cpu import ProcessCpuSampler, Reading, compare

BUSY = "while True: pass"
IDLE = "import time; time.sleep(600)"
#: Work that is all done by short-lived children, one after the other.
CHILDREN = (
    "import subprocess, sys\n"
    "while True: subprocess.run([sys.executable, '-S', '-c', 'sum(range(10**6))'])"
)


def target(replica_id: int = 1, *, pid: int | None = None, mgpu: int = 90, **more) -> SampleTarget:
    return SampleTarget(
        replica_id=replica_id,
        attempt=1,
        pid=pid,
        supervisor_pid=None,
        request_mgpu=mgpu,
        **more,
    )


def reading(at_s: float, cpu_us: int, *, run_us: int | None = None, wait_us: int | None = None):
    return Reading(
        at_ns=int(at_s * 1e9),
        started=1,
        cpu_us=cpu_us,
        run_ns=None if run_us is None else run_us * 1000,
        wait_ns=None if wait_us is None else wait_us * 1000,
        memory_mib=40,
    )


def told(before, now, *, mgpu: int = 90, cores: int = 2, **more):
    sample = compare(target(mgpu=mgpu, **more), before=before, now=now, host_cores=cores)
    return sample.utilization_permille, sample.demand_permille


@pytest.mark.parametrize(
    ("cpu_us", "wait_us", "mgpu", "expected"),
    [
        # given 10 s on 2 cores, of which 0.09 is 0.18 core: 1.8 s of CPU are all of the share
        pytest.param(900_000, 0, 90, (500, 500), id="half of the share"),
        pytest.param(1_800_000, 0, 90, (1000, 1000), id="all of it"),
        pytest.param(9_000_000, 0, 90, (1000, 1000), id="five times as much is still all of it"),
        pytest.param(0, 0, 90, (0, 0), id="nothing"),
        pytest.param(100, 0, 90, (1, 1), id="a little is not nothing"),
        pytest.param(0, 10_000_000, 90, (0, 1000), id="it waited all the time: not idle"),
        pytest.param(900_000, 900_000, 90, (500, 1000), id="half run, half waited"),
        pytest.param(5_000_000, 0, 1000, (250, 250), id="a whole card is all of the cores"),
        pytest.param(900_000, 0, 0, (None, None), id="no GPU, no share: unknown"),
    ],
)
def test_cpu_time_against_the_share(cpu_us, wait_us, mgpu, expected):
    now = reading(10, cpu_us, run_us=cpu_us, wait_us=wait_us)
    assert told(reading(0, 0, run_us=0, wait_us=0), now, mgpu=mgpu) == expected


def test_where_many_virtual_devices_share_the_cores_each_is_its_part_of_them():
    # Given 8 devices on 2 cores: a whole one is a quarter of a core
    now = reading(10, 1_250_000)
    assert told(reading(0, 0), now, mgpu=1000, host_devices=8) == (500, 500)


def test_one_reading_says_nothing():
    assert told(None, reading(10, 1_000_000)) == (None, None)


def test_two_readings_in_the_same_moment_say_nothing():
    assert told(reading(10, 0), reading(10.1, 0)) == (None, None)


def test_a_clock_tick_does_not_make_an_idle_service_active():
    # Given a service that ran 4 ms in 5 s, in which the kernel's clock moved on by one tick
    before = reading(0, 2 * TICK_US, run_us=25_000, wait_us=0)
    now = reading(5, 3 * TICK_US, run_us=29_000, wait_us=0)

    # When that is held against 0.10 of two cores
    used, wanted = told(before, now, mgpu=100)

    # Then what it ran counts, and not the tick
    assert (used, wanted) == (4, 4)


def test_threads_that_ended_count_by_the_clocks_ticks_less_their_rounding():
    # Given 900 ms of which the run queue forgot all, in one process
    before, now = reading(0, 0, run_us=0, wait_us=0), reading(10, 900_000, run_us=0, wait_us=0)

    # Then all but two ticks count
    used = math.ceil((900_000 - 2 * TICK_US) / 1800)
    assert told(before, now) == (used, used)


def test_without_the_kernels_run_queue_the_cpu_time_alone_counts():
    assert told(reading(0, 0), reading(10, 900_000)) == (500, 500)


@contextmanager
def running(*programs: str) -> Iterator[list[int]]:
    started = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", f"print('up', flush=True)\n{text}"],
            start_new_session=True,
            stdout=subprocess.PIPE,
        )
        for text in programs
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
        yield [process.pid for process in started]
    finally:
        for process in started:
            os.killpg(process.pid, 9)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def sample_twice(*targets: SampleTarget):
    sampler = ProcessCpuSampler()
    first = sampler.sample(targets)
    time.sleep(1.5)
    return first, sampler.sample(targets)


def test_busy_and_idle_are_told_apart():
    with running(BUSY, IDLE, CHILDREN) as (busy, idle, children):
        first, second = sample_twice(
            target(1, pid=busy), target(2, pid=idle), target(3, pid=children)
        )
    assert not any(sample.is_valid for sample in first)
    of_busy, of_idle, of_children = second
    assert of_busy.utilization_permille == 1000
    assert of_busy.cpu_milli > 100
    assert of_idle.demand_permille < 10  # below 1 % is idle
    assert of_children.demand_permille > 500
    assert all(sample.memory_mib > 0 for sample in second)


def test_of_many_that_compete_for_the_cores_none_is_called_idle():
    # Given twelve that always want to run, of which the machine can run few
    with running(*[BUSY] * 12) as pids:
        _, second = sample_twice(*(target(n, pid=pid, mgpu=1000) for n, pid in enumerate(pids)))

    # Then each wanted all of its share, whatever it got
    assert min(sample.demand_permille for sample in second) >= 400
    assert all(sample.is_valid for sample in second)


def test_a_process_that_is_gone_is_unknown():
    with running(IDLE) as (pid,):
        sampler = ProcessCpuSampler()
        sampler.sample((target(pid=pid),))
    (sample,) = sampler.sample((target(pid=pid),))
    assert not sample.is_valid
    assert (sample.memory_mib, sample.cpu_usec) == (None, None)


def test_a_replica_without_a_process_is_unknown():
    (sample,) = ProcessCpuSampler().sample((target(pid=None),))
    assert not sample.is_valid


def test_another_process_of_the_same_number_begins_anew():
    # Given readings of a process, and then of a later one that has its number
    clock = iter(range(0, 10**12, 10**9))
    sampler = ProcessCpuSampler(clock_ns=lambda: next(clock))
    with running(IDLE) as (pid,):
        sampler.sample((target(pid=pid),))
        kept = sampler._readings[1, 1][0]
        sampler._readings[1, 1][0] = Reading(
            at_ns=kept.at_ns,
            started=kept.started - 1,
            cpu_us=0,
            run_ns=0,
            wait_ns=0,
            memory_mib=1,
        )
        (sample,) = sampler.sample((target(pid=pid),))
    assert not sample.is_valid
