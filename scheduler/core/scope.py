"""Scopes: which sets of victims a rule allows at all. What reclaim and preemption differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from scheduler.core.jobs import Candidate
from scheduler.core.victims import Chosen, Taken


class Tally(Protocol):
    """Counts victims one after the other, in the order in which they are taken."""

    def admits(self, taken: Taken, *, straddling: bool) -> bool:
        """Test whether ``taken`` may be taken next."""

    def count(self, taken: Taken, *, sign: int) -> None:
        """Count ``taken`` in (+1) or out (-1)."""

    @property
    def is_allowed(self) -> bool:
        """Test whether what is counted may be taken."""


class Scope(Protocol):
    """Which sets may be taken at all: what reclaim and preemption differ in."""

    def ranked(self) -> Iterator[Candidate]:
        """Yield all candidates, most willing first."""

    def allows(self, chosen: Chosen, *, straddling: bool) -> bool:
        """Test whether ``chosen`` may be taken, in some order, by the rule."""

    def tally(self) -> Tally:
        """Return a count of what is taken, for taking one after the other."""

    @property
    def size(self) -> int:
        """Return how many candidates there may be."""

    def able_nodes(self) -> Mapping[int, int]:
        """Return, by node, a bound on how many replicas would fit if all candidates were gone."""

    def on_node(self, position: int) -> list[Candidate]:
        """Return the candidates with replicas on one node, most willing first."""

    @property
    def has_further(self) -> bool:
        """Test whether some candidate may have further replicas."""

    @property
    def may_straddle(self) -> bool:
        """Test whether sets that end below a queue's quota exist for this rule."""

    @property
    def needs_company(self) -> bool:
        """Test whether a victim may be needed although it frees nothing that the request uses."""
