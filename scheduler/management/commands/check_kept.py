"""``manage.py check_kept``: is state kept from tick to tick the same as state built anew, on this data?"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from dataclasses import replace
from random import Random
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.core.cycle import decide
from scheduler.core.instants import to_us
from scheduler.core.kept import Kept, differing_parts
from scheduler.core.snapshot import Snapshot
from scheduler.queries import snapshots
from scheduler.queries.snapshots import Loaded
from scheduler.tick.run import utc_now

#: Simulated time from one step to the next.
_STEP_US = 20_000_000


class Command(BaseCommand):
    """Plays made-up changes on each pool as it is now, in memory; nothing of the product is touched."""

    help = (
        "Check that plans from kept state are those from state built anew: on each pool as it is now, "
        "with made-up ends, submissions and quotas, in memory. Touches nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--steps", type=int, default=50, help="changes of each pool (50)")
        parser.add_argument("--seed", type=int, default=1, help="which changes are made up (1)")

    def handle(self, *args: Any, **options: Any) -> None:
        steps = max(1, options["steps"])
        _, pools = snapshots.load_pools()
        differing = 0
        for loaded in pools:
            differing += self._check(loaded, steps, Random(options["seed"]))
        if differing:
            raise CommandError("kept state differs: see above; report it with this output")

    def _check(self, loaded: Loaded, steps: int, draw: Random) -> int:
        """Play ``steps`` changes on one pool; return 1 and tell, if a plan differs."""
        now_us = to_us(utc_now())
        facts, policy = loaded.snapshot, loaded.policy
        kept = Kept(facts, policy=policy, now_us=now_us)
        kept_s = anew_s = 0.0
        for step in range(steps):
            began = time.process_time()
            kept.follow(facts, now_us=now_us)
            plan = kept.decide()
            middle = time.process_time()
            anew = decide(snapshot=facts, policy=policy, now_us=now_us)
            kept_s += middle - began
            anew_s += time.process_time() - middle
            parts = differing_parts(plan, anew)
            if parts:
                self.stdout.write(
                    f"{loaded.pool.name}: DIFFERS after {step} changes in {', '.join(parts)}"
                )
                return 1
            facts, now_us = _change(facts, draw, step), now_us + _STEP_US
        per_plan = f"{1000 * kept_s / steps:.1f} ms kept, {1000 * anew_s / steps:.1f} ms anew"
        self.stdout.write(
            f"{loaded.pool.name}: {steps} plans the same; {len(loaded.snapshot.workloads)} workloads, "
            f"{per_plan} (CPU, a plan)"
        )
        return 0


def _change(facts: Snapshot, draw: Random, step: int) -> Snapshot:
    """Return ``facts`` with something changed: an end, a loss, a copy submitted, or a quota."""
    workloads = list(facts.workloads)
    what = draw.randrange(4)
    if what == 0 and facts.projects:
        projects = list(facts.projects)
        at = draw.randrange(len(projects))
        quota = replace(projects[at].quota, rank=draw.randint(1, 5))
        projects[at] = replace(projects[at], quota=quota)
        return replace(facts, projects=tuple(projects))
    if not workloads:
        return facts
    at = draw.randrange(len(workloads))
    if what == 1:
        del workloads[at]
    elif what == 2:
        workloads[at] = replace(workloads[at], replicas=(), nominated=(), running_since_us=None)
    else:
        copy = replace(
            workloads[at],
            id=max(each.id for each in workloads) + 1,
            name=f"{workloads[at].name}-copy-{step}",
            replicas=(),
            nominated=(),
            running_since_us=None,
        )
        workloads.append(copy)
    return replace(facts, workloads=tuple(workloads))
