"""A trial: the state without some victims, looked at for one request and then put back."""

from __future__ import annotations

from scheduler.core import quota
from scheduler.core.allocate import budget_of
from scheduler.core.consolidate import Mover, Packing
from scheduler.core.jobs import Candidate
from scheduler.core.session import Session
from scheduler.core.victims import Taken
from scheduler.core.waiting import Request


class Trial:
    """The state without some victims, for one request. Nothing stays once it is closed."""

    __slots__ = (
        "_after",
        "_mover",
        "_out",
        "_request",
        "_session",
        "_slots",
        "_total",
        "packing",
    )

    def __init__(self, session: Session, request: Request, *, mover: Mover | None = None) -> None:
        self._session = session
        self._request = request
        self._slots = session.placer(session.later).slots(request.shape)
        self._total = self._slots.total
        #: Slots on the nodes that victims left.
        self._after: dict[int, int] = {}
        self._mover = mover
        #: Ids of the replicas that are out.
        self._out: set[int] = set()
        #: The moves found when the state last worked only with them.
        self.packing: Packing | None = None

    @property
    def lacks_devices(self) -> bool:
        """Test whether the request does not fit on the devices."""
        return self._total < self._request.count

    def add(self, taken: Taken) -> None:
        """Take victims out."""
        self._shift(taken, 1)

    def undo(self, taken: Taken) -> None:
        """Put victims back."""
        self._shift(taken, -1)

    def _shift(self, taken: Taken, sign: int) -> None:
        job = taken.candidate.job
        nodes = self._session.later.nodes
        shape = self._request.shape
        before = self._slots.by_node
        for held in taken.helds:
            place = held.place
            if place.node < 0:
                continue
            nodes[place.node].move(job.shape, place.devices, sign)
            slots = before.get(place.node)
            if slots is not None:
                now = nodes[place.node].slots(shape)
                self._total += now - self._after.get(place.node, slots)
                self._after[place.node] = now
            if sign > 0:
                self._out.add(held.id)
            else:
                self._out.discard(held.id)
        self._session.count(job, taken.mgpu, len(taken.helds), -sign)

    def passes_checks(self) -> bool:
        """Test checks 1 and 2."""
        request = self._request
        return quota.passes(
            project=request.project,
            amount=request.amount,
            preemptible=request.workload.preemptible,
        )

    def may_help(self, candidate: Candidate) -> bool:
        """Test, quickly, whether taking this candidate alone could make room on some device."""
        shape = self._request.shape
        if not self.lacks_devices or shape.devices != 1 or self._mover is not None:
            return True
        nodes = self._session.later.nodes
        for held in candidate.job.held:
            place = held.place
            if place.node not in self._slots.by_node:
                continue
            node = nodes[place.node]
            if node.is_bounded:
                return True
            for at in place.devices:
                cost = shape.cost_on(node.cards_mib[at])
                if cost is not None and node.free_mgpu[at] + candidate.mgpu >= cost[0]:
                    return True
        return False

    def works(self) -> bool:
        """Test whether the request could start now, with moves where they are allowed."""
        self.packing = None
        if not self.passes_checks():
            return False
        if not self.lacks_devices and self._fits_within_budget():
            return True
        if self._mover is not None:
            self.packing = self._mover.find(without=frozenset(self._out))
        return self.packing is not None

    def _fits_within_budget(self) -> bool:
        """Test whether a memory request lands on cards for which the checks hold too."""
        budget = budget_of(self._request)
        if budget is None:
            return True
        placer = self._session.placer(self._session.later)
        shape, count = self._request.shape, self._request.count
        places = placer.take_within(shape, count, budget)
        if places is None:
            return False
        placer.give_back(shape, places)
        return True
