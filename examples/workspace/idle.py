"""A workspace that idles: it holds what it was given and does nothing with it.

``--busy-seconds N`` has it work for N seconds first, as somebody does who then goes to lunch.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time


def say(text: str) -> None:
    """Print a line with the time before it, at once."""
    print(time.strftime("[%H:%M:%S] ") + text, flush=True)


def work(seconds: float) -> None:
    """Compute in short strokes for a while."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        sum(range(50_000))
        time.sleep(0.02)


def main() -> int:
    """Hold the slice until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy-seconds", type=float, default=0.0)
    options = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda _signum, _frame: ended.set())
    total_mib = os.environ.get("TIDEGATE_GPU_MEMORY_MIB", "0")
    say(f">>> workspace open: total memory {total_mib} MiB")
    work(options.busy_seconds)
    say(">>> nothing to do")
    ended.wait()
    say("!!! received SIGTERM - workspace closed")
    return 128 + signal.SIGTERM


if __name__ == "__main__":
    sys.exit(main())
