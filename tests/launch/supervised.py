"""A small supervisor to be tested from outside: ``python -m tests.launch.supervised FOLDER``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from dashboard.launch.processes import become_reaper
from dashboard.launch.supervisor import Program, Supervisor

# Leaves a process in a session of its own, as the local engine leaves a workload's, and ends late.
WORKER = """
import os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                        start_new_session=True)
(folder / "workloads").open("a").write(f"{left.pid}\\n")
def end(*_):
    (folder / "ends").open("a").write("worker\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
(folder / "worker.ready").touch()
time.sleep(600)
"""
STUBBORN = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: None)
(pathlib.Path(sys.argv[1]) / "web.ready").touch()
while True:
    time.sleep(600)
"""


def main(folder: Path) -> None:
    def program(name: str, code: str, grace_s: float) -> Program:
        return Program(
            name=name,
            argv=(sys.executable, "-c", code, str(folder)),
            answers=lambda _: (folder / f"{name}.ready").exists(),
            grace_s=grace_s,
        )

    supervisor = Supervisor(
        cwd=folder,
        logs=folder,
        environment=os.environ,
        report=lambda text: print(text, flush=True),
        on_change=lambda children: print({name: who.pid for name, who in children.items()}),
    )
    become_reaper()
    supervisor.listen_for_signals()
    supervisor.start(program("worker", WORKER, 5))
    supervisor.start(program("web", STUBBORN, float(os.environ.get("STUBBORN_S", "1"))))
    while not all(supervisor.answers(name) for name in ("worker", "web")):
        supervisor.pause(0.1)
    print(f"ready {time.time()}", flush=True)
    while not supervisor.is_stop_asked():
        supervisor.pause(0.2)
    supervisor.stop_all(order=("worker", "web"))
    print("ended", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
