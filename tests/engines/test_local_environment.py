"""What a replica's process gets to see: what it was given, and nothing of the server's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.engines.base import DeviceGrant, Gang, LaunchRefused
from scheduler.engines.environment import build_environment
from tests.engines.harness import LocalHarness, launch, service, spec, wait_log

SHOW = "import json, os; print(json.dumps(dict(os.environ)), os.getcwd(), sep='|', flush=True)"


def shown(local: LocalHarness, **more) -> tuple[dict[str, str], str]:
    key = launch(local, spec(("python", "-c", SHOW), **more))
    env, _, cwd = wait_log(local, key, "|/").partition("|")
    return json.loads(env), cwd.strip()


def test_nothing_of_the_servers_leaks(local: LocalHarness, monkeypatch: pytest.MonkeyPatch):
    # Given a server with secrets in its environment
    for name in ("DATABASE_URL", "REDIS_URL", "TIDEGATE_SECRET_KEY", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.setenv(name, "secret")

    # When a replica is launched with a variable of its user's
    env, cwd = shown(local, env=(("DATA_SET", "digits"), ("TIDEGATE_GPU_MILLI", "1000")))

    # Then it sees this and no more; what the engine says can't be said by the user
    home = local.data_dir / "engine" / "storage" / "workload-1" / "work"
    assert {name: env[name] for name in env if name not in ("PATH", "LANG", "TZ")} == {
        "HOME": str(home),
        "DATA_SET": "digits",
        "CUDA_VISIBLE_DEVICES": "0",
        "TIDEGATE_VIRTUAL_DEVICES": "1",
        "TIDEGATE_GPU_MILLI": "90",
        "TIDEGATE_GPU_MEMORY_MIB": "4146",
        "CHECKPOINT_DIR": str(home.parent / "checkpoints"),
        "RESTART_COUNT": "0",
        "TIDEGATE_REPLICA": "1-1",
        "TIDEGATE_ENGINE": (local.data_dir / "engine" / "id").read_text(),
    }
    assert cwd == str(home)


def test_no_file_of_the_servers_is_left_open(local: LocalHarness):
    with open(__file__, encoding="utf-8"):
        key = launch(local, spec(("sh", "-c", "ls -l /proc/$$/fd; echo done")))
        text = wait_log(local, key, "done")
    targets = {line.rpartition("-> ")[2] for line in text.splitlines() if "->" in line}
    allowed = {"/dev/null", str(local.data_dir / "engine" / "replicas" / "1-1" / "output")}
    assert targets <= allowed


def test_the_order_is_for_the_owners_eyes(local: LocalHarness):
    key = launch(local, spec(("sleep", "600"), env=(("TOKEN", "secret"),)))
    order = local.data_dir / "engine" / "replicas" / str(key) / "order.json"
    assert order.stat().st_mode & 0o077 == 0
    assert order.parent.stat().st_mode & 0o077 == 0


def build(**more) -> dict[str, str]:
    return build_environment(
        spec=spec(("true",), **more),
        engine_id="e",
        work_dir="/w",
        checkpoint_dir="/c",
        port=24_001,
        host="127.0.0.1",
    )


def test_a_service_gets_its_port_and_a_gang_its_place():
    gang = Gang(rank=1, world_size=2, master_addr="127.0.0.1", master_port=24_500)
    env = build(gang=gang, service=service(), restart_count=4)
    assert (env["PORT"], env["RESTART_COUNT"]) == ("24001", "4")
    assert (env["RANK"], env["WORLD_SIZE"]) == ("1", "2")
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("127.0.0.1", "24500")


def real(index: int, mgpu: int, mib: int) -> DeviceGrant:
    return DeviceGrant(
        index=index, uuid=f"GPU-{index}", request_mgpu=mgpu, memory_mib=mib, virtual=False
    )


def test_real_devices_are_named_so_that_no_order_matters():
    env = build(devices=(real(3, 250, 11_517), real(5, 250, 11_517)))
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-3,GPU-5"
    assert (env["TIDEGATE_GPU_MILLI"], env["TIDEGATE_GPU_MEMORY_MIB"]) == ("500", "23034")
    assert "TIDEGATE_VIRTUAL_DEVICES" not in env


def test_where_mps_runs_the_slice_is_set_for_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert "CUDA_MPS_PIPE_DIRECTORY" not in build(devices=(real(3, 90, 4146),))
    (tmp_path / "control").touch()
    env = build(devices=(real(3, 90, 4146),))
    assert env["CUDA_MPS_PIPE_DIRECTORY"] == str(tmp_path)
    assert env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "9"
    assert env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=4146M"


def test_work_without_a_gpu_sees_none():
    env = build(devices=())
    assert (env["CUDA_VISIBLE_DEVICES"], env["TIDEGATE_GPU_MILLI"]) == ("", "0")


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("A=B", "x"), ("A", "x\0y"), ("A\0B", "x")])
def test_what_no_environment_can_hold_is_refused(name: str, value: str):
    with pytest.raises(LaunchRefused, match="environment variable"):
        build(env=((name, value),))


@pytest.mark.parametrize("storage_key", ["", "..", ".hidden", "a/b", "../x", "x" * 200])
def test_storage_stays_inside_its_folder(local: LocalHarness, storage_key: str):
    with pytest.raises(LaunchRefused, match="can't name a directory"):
        local.engine.launch(spec(("true",), storage_key=storage_key))


def test_storage_outlives_attempts_and_goes_when_told(local: LocalHarness):
    # Given a first attempt that left a file behind
    key = launch(local, spec(("sh", "-c", "echo 20 > $CHECKPOINT_DIR/epoch; echo done")))
    wait_log(local, key, "done")

    # When the second attempt looks
    again = launch(local, spec(("sh", "-c", "cat $CHECKPOINT_DIR/epoch; echo done"), attempt=2))

    # Then it is there, until the workload is deleted
    assert wait_log(local, again, "done") == "20\ndone\n"
    local.engine.delete_storage("workload-1")
    assert not (local.data_dir / "engine" / "storage" / "workload-1").exists()
