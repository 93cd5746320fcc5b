"""``manage.py join``: makes this machine a node of a cluster, or its head, until it is ended."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from dashboard.launch.install import ROOT
from dashboard.launch.processes import spawn
from dashboard.launch.screen import Screen

HEAD_PORT = 6379
START_AGAIN_AFTER_S = 5.0
#: The head calls a node dead that has failed five checks in a row, a second apart. Where nothing listens
#: any more a check fails at once; a machine that is only busy has five seconds to answer each.
HEALTH_CHECKS = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_initial_delay_ms": "5000",
}


def main(argv: Sequence[str]) -> int:
    given = _parse(argv)
    for folder in (given.data, given.shared):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = _find_or_make_token(given)
    screen = Screen()
    screen.say(f"{given.name} joins {given.head or 'as the head of a new cluster'}")
    screen.note(f"the cluster's token, which every node and Tidegate itself need: {token}")
    screen.note("Ctrl-C ends it; work of this machine ends once it has been away for the lease")
    return _keep_running(_command(given), _environment(given, token), screen)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="manage.py join",
        description="Make this machine a node that runs work for a Tidegate elsewhere.",
        epilog="The first machine joins without --head: it becomes the head, beside Tidegate itself.",
    )
    parser.add_argument("--name", required=True, help="the node's name, as the map shows it")
    parser.add_argument("--address", required=True, help="this machine's address in the cluster")
    parser.add_argument("--head", default="", help="address:port of the head; empty: be the head")
    parser.add_argument("--pool", default="", help="node pool (the first one)")
    parser.add_argument("--port", type=int, default=HEAD_PORT, help="the head's port (6379)")
    parser.add_argument(
        "--shared",
        type=Path,
        required=True,
        help="folder that all machines see alike (NFS or the like): checkpoints and data lie there",
    )
    parser.add_argument("--data", type=Path, help="folder of this machine alone (./var/node)")
    parser.add_argument("--token-file", type=Path, help="file with the cluster's token")
    parser.add_argument(
        "--virtual-devices", type=int, default=0, help="where no GPU is: lend so many virtual ones"
    )
    given = parser.parse_args(list(argv))
    given.data = (given.data or ROOT / "var" / "node").expanduser().absolute()
    given.shared = given.shared.expanduser().absolute()
    if given.head and given.token_file is None:
        parser.error("--token-file: copy the head's token file to this machine and name it here")
    if given.head and ":" not in given.head:
        parser.error(f"--head: {given.head!r} has no port; the head printed address:port")
    return given


def _find_or_make_token(given: argparse.Namespace) -> Path:
    path: Path = (given.token_file or given.data / "cluster.token").expanduser().absolute()
    if not path.exists():
        if given.head:
            sys.exit(f"--token-file: {path} is not there; copy it from the head")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))
    return path


def _command(given: argparse.Namespace) -> list[str]:
    ray = str(Path(sys.executable).parent / "ray")
    labels = f"tidegate-node={given.name}"
    if given.pool:
        labels += f",tidegate-pool={given.pool}"
    command = [ray, "start", "--block", "--disable-usage-stats", "--include-log-monitor=false"]
    command += ["--node-ip-address", given.address, "--labels", labels, "--num-gpus", "0"]
    if given.head:
        return [*command, "--address", given.head]
    own = ["--head", "--port", str(given.port), "--include-dashboard=false"]
    return [*command, *own, "--temp-dir", str(given.data / "ray")]


def _environment(given: argparse.Namespace, token: Path) -> dict[str, str]:
    return {
        **os.environ,
        **HEALTH_CHECKS,
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "TIDEGATE_NODE_NAME": given.name,
        "TIDEGATE_NODE_DATA": str(given.data),
        "TIDEGATE_NODE_SHARED": str(given.shared),
        "TIDEGATE_NODE_VIRTUAL_DEVICES": str(given.virtual_devices),
    }


def _keep_running(command: Sequence[str], environment: dict[str, str], screen: Screen) -> int:
    """Run the node's processes, again where they ended by themselves, until this one is ended."""
    is_ending = False
    child: subprocess.Popen[bytes] | None = None

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_ending
        is_ending = True
        if child is not None:
            child.terminate()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    log = Path(environment["TIDEGATE_NODE_DATA"]) / "node.log"
    while not is_ending:
        child = spawn(command, cwd=ROOT, environment=environment, log=log)
        code = child.wait()
        if not is_ending:
            screen.warn(f"the node's processes ended ({code}), see {log}; again in a moment")
            time.sleep(START_AGAIN_AFTER_S)
    return 0
