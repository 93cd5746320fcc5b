"""The choice among sets of victims: exact where few could be taken, greedy above a bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import comb

from scheduler.core.books import Books
from scheduler.core.consolidate import Mover, Packing
from scheduler.core.jobs import Candidate
from scheduler.core.scope import Scope, Tally
from scheduler.core.session import Session
from scheduler.core.trial import Trial
from scheduler.core.victims import Chosen, Cost, Taken, cost_of, turn_of, ways_to_take
from scheduler.core.waiting import Request

#: Single victims that are tried, most willing first, before anything else is looked at.
_QUICK = 64
#: With more candidates than this no set for each node is looked for, only one over all.
_MANY = 512
#: How many sets are compared then, each on a node of its own.
_NEAR = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The set that was chosen, who was spared, and the moves that it needs, if any."""

    chosen: list[Taken]
    spared: list[Candidate]
    packing: Packing | None


class BoundReached(Exception):
    """More sets than the bound on the search allows."""


class Search:
    """One search for victims, for one request under one rule."""

    def __init__(self, session: Session, request: Request, scope: Scope) -> None:
        self._session = session
        self._request = request
        self._scope = scope
        mover = Mover(session, request) if session.policy.consolidation else None
        self._trial = Trial(session, request, mover=mover)
        self._tries_left = session.policy.search_bound
        self._source = scope.ranked()
        self._known: list[Candidate] = []

    def find(self) -> Found | None:
        """Return the best set, or None if none works."""
        if self._trial.works():
            return None  # it only waits for what is already being vacated
        chosen = self._find_quick() or self._find_thorough()
        if chosen is None:
            return None
        if self._session.policy.consolidation:
            self._works_with(chosen)  # for the moves that go with it
        taken = {each.candidate for each in chosen}
        spared = [each for each in self._known if each not in taken]
        return Found(chosen=chosen, spared=spared, packing=self._trial.packing)

    def _find_quick(self) -> list[Taken] | None:
        """Return the most willing single victim that is enough, where a single one must be best."""
        if self._scope.has_further:
            return None
        return self._find_single(islice(self._source, _QUICK))

    def _find_single(self, candidates: Iterable[Candidate]) -> list[Taken] | None:
        for candidate in candidates:
            self._known.append(candidate)
            if not self._trial.may_help(candidate):
                continue
            taken = [Taken(candidate, tuple(candidate.job.held))]
            if self._scope.allows(taken, straddling=False) and self._works_with(taken):
                return taken
        return None

    def _rest(self) -> list[Candidate]:
        self._known.extend(self._source)
        return self._known

    def _find_thorough(self) -> list[Taken] | None:
        if self._is_local and self._scope.size > _MANY:
            return self._find_near()
        if len(self._known) == _QUICK and not self._scope.has_further:
            chosen = self._find_single(self._source)
            if chosen is not None:
                return chosen
        candidates = self._rest()
        if not candidates:
            return None
        if not self._works_with(_all_of(candidates)):
            return None
        stages = (False, True) if self._scope.may_straddle else (False,)
        for straddling in stages:
            chosen = self._find_stage(candidates, straddling=straddling)
            if chosen is not None:
                return chosen
        return None

    def _find_stage(
        self, candidates: Sequence[Candidate], *, straddling: bool
    ) -> list[Taken] | None:
        if len(candidates) > _MANY:
            return self._find_greedy(candidates, (), straddling=straddling)
        groups = [group for group in self._groups(candidates) if self._works_with(_all_of(group))]
        try:
            return self._find_exact(groups, straddling=straddling)
        except BoundReached:
            return self._find_greedy(candidates, groups, straddling=straddling)

    @property
    def _is_local(self) -> bool:
        """Test whether all victims that are needed run on the node that the request then gets."""
        alone = self._request.count == 1 and self._trial.passes_checks()
        consolidates = self._session.policy.consolidation
        return alone and not self._scope.needs_company and not consolidates

    def _find_near(self) -> list[Taken] | None:
        """Return the best set of those nodes that lack the least and could be cleared, looking at as
        few nodes as give some sets to choose from; None if no node could be cleared.
        """
        groups: list[list[Candidate]] = []
        found: list[list[Taken]] = []
        for position in self._nodes_lacking_least():
            group = self._scope.on_node(position)
            if not group or not self._works_with(_all_of(group)):
                continue
            groups.append(group)
            chosen = self._greedy_set(group, straddling=False)
            if chosen is not None:
                found.append(chosen)
                if len(found) == _NEAR:
                    break
        if not found and self._scope.may_straddle:
            sets = (self._greedy_set(group, straddling=True) for group in groups)
            found = list(islice((chosen for chosen in sets if chosen is not None), _NEAR))
        return min(found, key=self._cost_of, default=None)

    def _nodes_lacking_least(self) -> list[int]:
        """Return the nodes that could be cleared for the request, those that lack the least first."""
        nodes, shape = self._session.later.nodes, self._request.shape
        need = shape.cheapest_mgpu

        def lacking(position: int) -> tuple[int, int]:
            free = nodes[position].free_mgpu
            lacks = sorted([need - mgpu if mgpu < need else 0 for mgpu in free])
            return sum(lacks[: shape.devices]), position

        return sorted([at for at, slots in self._scope.able_nodes().items() if slots], key=lacking)

    def _cost_of(self, chosen: Chosen) -> Cost:
        return cost_of(chosen, now_us=self._session.now_us)

    def _groups(self, candidates: Sequence[Candidate]) -> list[list[Candidate]]:
        """Part the candidates by node where the request lands on one and lacks nothing but devices."""
        if not self._is_local:
            return [list(candidates)]
        by_node: dict[int, list[Candidate]] = {}
        for candidate in candidates:
            for node in sorted({held.place.node for held in candidate.job.held}):
                by_node.setdefault(node, []).append(candidate)
        return [by_node[node] for node in sorted(by_node) if node >= 0]

    def _find_exact(
        self, groups: Sequence[Sequence[Candidate]], *, straddling: bool
    ) -> list[Taken] | None:
        most = max((len(group) for group in groups), default=0)
        for wholes in range(most + 1):
            self._expect_tries(groups, wholes)
            best: tuple[Cost, list[Taken]] | None = None
            for group in groups:
                for chosen, moves in self._sets(group, wholes, straddling=straddling):
                    cost = cost_of(chosen, now_us=self._session.now_us, moves=moves)
                    if best is None or cost < best[0]:
                        best = (cost, chosen)
            if best is not None:
                return best[1]
        return None

    def _expect_tries(self, groups: Sequence[Sequence[Candidate]], wholes: int) -> None:
        expected = sum(comb(len(group), wholes) for group in groups)
        if expected > self._tries_left:
            raise BoundReached

    def _sets(
        self, group: Sequence[Candidate], wholes: int, *, straddling: bool
    ) -> Iterator[tuple[list[Taken], int]]:
        """Yield the sets that work, of which no part works, in which ``wholes`` workloads stop, each
        with the number of moves that it needs.
        """
        ways = [self._ways(candidate) for candidate in group]
        chosen: list[Taken] = []

        def grow(at: int, left: int) -> Iterator[tuple[list[Taken], int]]:
            if self._complete(chosen, straddling=straddling):
                packing = self._trial.packing
                if not left and self._is_minimal(chosen, straddling=straddling):
                    yield list(chosen), 0 if packing is None else len(packing.moves)
                return
            for index in range(at, len(ways)):
                for taken in ways[index]:
                    if taken.whole and not left:
                        continue
                    chosen.append(taken)
                    self._trial.add(taken)
                    yield from grow(index + 1, left - taken.whole)
                    self._trial.undo(taken)
                    chosen.pop()

        yield from grow(0, wholes)

    def _ways(self, candidate: Candidate) -> list[Taken]:
        """Return what can be taken of ``candidate``; too much of that can't be tried either."""
        bound = max(1, self._tries_left)
        ways = list(islice(ways_to_take(candidate, self._session.later), bound + 1))
        if len(ways) > bound:
            raise BoundReached
        return ways

    def _complete(self, chosen: list[Taken], *, straddling: bool) -> bool:
        """Test whether ``chosen``, which is out in the trial, works; count the try."""
        if not chosen:
            return False
        self._tries_left -= 1
        if self._tries_left < 0:
            raise _rewound(self._trial, chosen)
        return self._trial.works() and self._scope.allows(chosen, straddling=straddling)

    def _is_minimal(self, chosen: list[Taken], *, straddling: bool) -> bool:
        """Test that no part of ``chosen`` works. The trial is left as it was."""
        for at, taken in enumerate(chosen):
            for less in _lesser(taken, self._session.later):
                part = [*chosen[:at], *less, *chosen[at + 1 :]]
                if not part or not self._scope.allows(part, straddling=straddling):
                    continue
                self._trial.undo(taken)
                for each in less:
                    self._trial.add(each)
                works = self._trial.works()
                for each in less:
                    self._trial.undo(each)
                self._trial.add(taken)
                if works:
                    return False
        return True

    def _works_with(self, chosen: Chosen) -> bool:
        for taken in chosen:
            self._trial.add(taken)
        works = self._trial.works()
        for taken in chosen:
            self._trial.undo(taken)
        return works

    def _find_greedy(
        self,
        candidates: Sequence[Candidate],
        groups: Sequence[Sequence[Candidate]],
        *,
        straddling: bool,
    ) -> list[Taken] | None:
        """Return the best of the greedy sets: one over all, or one for each group."""
        best: tuple[Cost, list[Taken]] | None = None
        for group in (candidates, *groups):
            chosen = self._greedy_set(group, straddling=straddling)
            if chosen is not None:
                cost = self._cost_of(chosen)
                best = (cost, chosen) if best is None or cost < best[0] else best
        return None if best is None else best[1]

    def _greedy_set(self, group: Sequence[Candidate], *, straddling: bool) -> list[Taken] | None:
        """Take the most willing until the request fits, then put every needless one back."""
        tally = self._scope.tally()
        chosen: dict[Candidate, Taken] = {}
        works = False
        for taken in self._in_turn(group):
            before = chosen.get(taken.candidate)
            self._swap(tally, before, None)
            is_more = before is None or len(before.helds) < len(taken.helds)
            if not is_more or not tally.admits(taken, straddling=straddling):
                self._swap(tally, None, before)
                continue
            self._swap(tally, None, taken)
            chosen[taken.candidate] = taken
            works = self._trial.works() and tally.is_allowed
            if works:
                break
        if works:
            self._prune(chosen, tally)
        for taken in chosen.values():
            self._trial.undo(taken)
        result = list(chosen.values())
        return result if works and self._scope.allows(result, straddling=straddling) else None

    def _in_turn(self, group: Sequence[Candidate]) -> Iterator[Taken]:
        """Yield takings in greedy order; once more where the first ones may open the way to others."""
        yield from _in_pieces(group)
        if self._scope.needs_company:
            yield from _in_pieces(group)

    def _prune(self, chosen: dict[Candidate, Taken], tally: Tally) -> None:
        """Put back, the least willing first, what is not needed."""
        books = self._session.later
        for taken in list(reversed(chosen.values())):
            for less in _lesser(taken, books):
                part = less[0] if less else None
                self._swap(tally, taken, part)
                if tally.is_allowed and self._trial.works():
                    if part is None:
                        del chosen[taken.candidate]
                    else:
                        chosen[taken.candidate] = part
                    break
                self._swap(tally, part, taken)

    def _swap(self, tally: Tally, old: Taken | None, new: Taken | None) -> None:
        """Put ``old`` back and take ``new`` out."""
        if old is not None:
            self._trial.undo(old)
            tally.count(old, sign=-1)
        if new is not None:
            self._trial.add(new)
            tally.count(new, sign=1)


def _rewound(trial: Trial, chosen: list[Taken]) -> BoundReached:
    for taken in chosen:
        trial.undo(taken)
    chosen.clear()
    return BoundReached()


def _all_of(candidates: Sequence[Candidate]) -> list[Taken]:
    return [Taken(candidate, tuple(candidate.job.held)) for candidate in candidates]


def _lesser(taken: Taken, books: Books) -> Iterator[list[Taken]]:
    """Yield the largest parts of what is taken of one workload; the empty one for a bare workload."""
    helds = taken.helds
    spare = taken.candidate.job.spare
    if not taken.whole or spare == len(helds):
        for held in helds:
            rest = tuple(each for each in helds if each is not held)
            yield [Taken(taken.candidate, rest)] if rest else []
        return
    if not spare:
        yield []
        return
    for way in ways_to_take(taken.candidate, books):
        if len(way.helds) == spare:
            yield [way]


def _in_pieces(group: Sequence[Candidate]) -> Iterator[Taken]:
    """Yield takings in greedy order: further replicas one by one, then workloads whole."""
    for candidate in group:
        helds = sorted(candidate.job.held, key=turn_of)
        for size in range(1, min(candidate.job.spare, len(helds) - 1) + 1):
            yield Taken(candidate, tuple(helds[:size]))
    for candidate in group:
        yield Taken(candidate, tuple(candidate.job.held))
