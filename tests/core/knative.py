"""Knative's autoscaler in its own terms, as one object with state: what ours is held against.

Written after the published algorithm (the Scale step and its windows), and used by tests alone.
"""

from __future__ import annotations

import math


class Knative:
    """One revision's decider: call ``scale`` every two seconds with what was seen until then."""

    def __init__(self, *, target, stable_s=60, activation=1):
        self.target = target
        self.stable_s = stable_s
        self.panic_s = max(1, stable_s // 10)
        self.activation = activation
        self.panic_at = None
        self.most_in_panic = 0
        self.fresh = True

    def scale(self, *, loads, now_s, ready):
        """Return the desired number. ``loads``: average in flight by second, from the first one,
        as fractions: in floats 8.4 / 1.4 is a little more than 6, and one replica too many."""
        if self.fresh:
            self.fresh = False
            if ready > 1:
                self.panic_at, self.most_in_panic = now_s, ready
        ready = max(1, ready)
        stable, panic = self._average(loads, self.stable_s), self._average(loads, self.panic_s)
        most, least = math.ceil(1000 * ready), math.floor(ready / 2)
        raw_stable, raw_panic = math.ceil(stable / self.target), math.ceil(panic / self.target)
        by_stable = min(max(raw_stable, least), most)
        by_panic = min(max(raw_panic, least), most)
        if self.activation > 1:
            by_stable = max(by_stable, self.activation) if raw_stable > 0 else by_stable
            by_panic = max(by_panic, self.activation) if raw_panic > 0 else by_panic
        if raw_panic / ready >= 2:
            self.panic_at = now_s
        elif self.panic_at is not None and now_s - self.panic_at > self.stable_s:
            self.panic_at, self.most_in_panic = None, 0
        if self.panic_at is None:
            return by_stable
        self.most_in_panic = max(self.most_in_panic, by_stable, by_panic)
        return self.most_in_panic

    @staticmethod
    def _average(loads, length):
        known = loads[-length:]
        return sum(known) / len(known) if known else 0
