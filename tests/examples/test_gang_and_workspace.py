"""The distributed example and the workspace under the local engine."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from scheduler.engines.base import Gang, LaunchSpec, ReplicaKey
from tests.engines.harness import (
    LocalHarness,
    find,
    launch,
    spec,
    wait_ended,
    wait_for,
    wait_log,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def gang(local: LocalHarness, *options: str, size: int = 2, attempt: int = 1) -> list[ReplicaKey]:
    port = local.engine.find_meeting_point("").port
    command = ("python", str(EXAMPLES / "gang" / "all_reduce.py"), "--step-seconds", "0.1")
    keys = []
    for rank in range(size):
        place = Gang(rank=rank, world_size=size, master_addr="127.0.0.1", master_port=port)
        wanted: LaunchSpec = spec(
            (*command, *options),
            replica=rank + 1,
            attempt=attempt,
            storage_key="gang",
            gang=place,
        )
        keys.append(launch(local, wanted))
    return keys


def steps(text: str) -> list[tuple[int, str]]:
    return [
        (int(step), value) for step, value in re.findall(r"step (\d+)/\d+ estimate=(\S+)", text)
    ]


def log_of(local: LocalHarness, key: ReplicaKey) -> str:
    return local.engine.read_log(key, offset=0, limit_bytes=2**20).text


def test_three_ranks_agree_on_one_result(local: LocalHarness):
    keys = gang(local, "--steps", "3", size=3)
    assert [wait_ended(local, key).exit_code for key in keys] == [0, 0, 0]
    assert steps(log_of(local, keys[0]))[-1][1].startswith("3.1415")


def test_a_gang_goes_on_from_its_one_checkpoint(local: LocalHarness):
    # Given a gang that was interrupted as a whole
    first = gang(local)
    wait_for(local, first[0], lambda seen: seen.checkpoint_count >= 3)
    for key in first:
        local.engine.terminate(key, grace_s=10, reason="reclaim")
    # (a rank that has lost its peer and is just leaving has no handler any more)
    for ended in [wait_ended(local, key) for key in first]:
        assert ended.exit_code in (143, 4) or ended.signal == signal.SIGTERM
    last = find(local, first[0]).checkpoint

    # When it comes back
    second = gang(local, attempt=2)
    wait_log(local, second[0], "estimate=")

    # Then it resumed where it was, and goes on with the next step
    resumed = wait_for(local, second[0], lambda seen: seen.resumed is not None).resumed
    assert (resumed.step, resumed.best) == (last.step, last.best)
    assert steps(log_of(local, second[0]))[0][0] == last.step + 1


def test_a_rank_that_is_killed_ends_the_others(local: LocalHarness):
    keys = gang(local, size=3)
    wait_log(local, keys[0], "step 1/")
    os.kill(find(local, keys[2]).pid, signal.SIGKILL)
    assert wait_ended(local, keys[2]).signal == signal.SIGKILL
    assert wait_ended(local, keys[0]).exit_code == 4
    assert wait_ended(local, keys[1]).exit_code == 4


def test_a_workspace_idles_until_it_is_closed(local: LocalHarness):
    key = launch(local, spec(("python", str(EXAMPLES / "workspace" / "idle.py"))))
    assert "total memory 4146 MiB" in wait_log(local, key, "nothing to do")
    local.engine.terminate(key, grace_s=10, reason="by_user")
    assert wait_ended(local, key).exit_code == 143
