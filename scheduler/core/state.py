"""The state that a cycle runs on, all of which may be carried on to the next one."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.fair_share import FairShares
from scheduler.core.holds import Explained
from scheduler.core.lacks import Shortages
from scheduler.core.ordering import Order
from scheduler.core.session import Session
from scheduler.core.waiting import Waiting


@dataclass(slots=True, eq=False, kw_only=True)
class State:
    """Totals and books; what waits; fair shares; what is short."""

    session: Session
    waiting: Waiting
    shares: FairShares
    shortages: Shortages
    explained: Explained
    order: Order

    def shortages_at_end(self) -> Shortages:
        """Return the shortages in the start books, which may be others than at the beginning."""
        if not self.shortages.is_of(self.session.start):
            self.shortages = Shortages(self.session, self.session.start)
        return self.shortages


def state_of(session: Session) -> State:
    """Return the state for cycles on ``session``, into which the facts were brought."""
    waiting = Waiting(session)
    return State(
        session=session,
        waiting=waiting,
        shares=FairShares(session),
        shortages=Shortages(session, session.start),
        explained=Explained(session, waiting),
        order=Order(session, waiting),
    )
