"""A lease: a file that says when its machine was last in touch. Work runs only while it is fresh.

So work ends by itself on a machine that nobody reaches, before it is started again elsewhere. Seconds
since boot: a step of the wall clock neither ends work nor keeps it. Light imports: supervisors load it.
"""

from __future__ import annotations

import math
import os
import time

#: The longest grace of work that ends because its machine is out of touch.
GRACE_S = 10


def seconds_since_boot() -> float:
    """Return a clock that never steps and that all processes of this machine share."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def renew(path: str, *, in_touch_at_s: float) -> None:
    """Note that the machine was in touch at an instant of ``seconds_since_boot``."""
    aside = f"{path}.new"
    with open(aside, "w", encoding="ascii") as file:
        file.write(repr(in_touch_at_s))
    os.replace(aside, path)


def age_s(path: str) -> float:
    """Return how long ago the machine was last in touch; for ever where the file is not there."""
    try:
        with open(path, encoding="ascii") as file:
            return seconds_since_boot() - float(file.read())
    except FileNotFoundError:
        return math.inf
