"""The indexed choice of a place against a plain scan over all nodes, on random states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.books import open_books
from scheduler.core.mix import Mix
from scheduler.core.placement import Placer
from scheduler.core.rating import Rater
from scheduler.core.shape import Shapes
from tests.core.clusters import Drawn, Size, make_cluster

SIZE = Size(nodes=6, workloads=9)


@given(st.data())
def test_the_index_chooses_as_a_plain_scan_does_whatever_comes_and_goes(data):
    # Given the nodes and the shapes of a random cluster, with nodes that are alike among them
    chance = Drawn(data.draw)
    snapshot, _ = make_cluster(chance, SIZE)
    nodes = tuple(sorted(snapshot.nodes, key=lambda node: node.name))
    nodes = tuple(sorted((*nodes, *map(_twin, nodes)), key=lambda node: node.name))
    shapes = Shapes(nodes)
    known = list({id(shape): shape for shape in map(shapes.of, snapshot.workloads)}.values())
    if not known:
        return
    books = open_books(nodes)
    counts = [(shape, chance.between(1, 5)) for shape in known]
    spread = chance.is_so(20)
    placer = Placer(books, mix=Mix(counts), spread=spread)
    taken = []
    for _ in range(chance.between(1, 25)):
        if taken and chance.is_so(30):
            shape, place = taken.pop(chance.between(0, len(taken) - 1))
            books.move(place.node, shape, place.devices, 1)
            continue
        # When a place is asked for
        shape = chance.one(known)
        place = placer.find(shape)
        # Then it is the one that rating every place on every node anew finds
        found = None if place is None else (place.node, place.devices)
        assert found == _scan(books, shape, Rater(Mix(counts), spread=spread))
        if place is not None and chance.is_so(80):
            books.move(place.node, shape, place.devices, -1)
            taken.append((shape, place))


@given(st.data())
def test_a_bound_is_never_above_the_rating_it_stands_for(data):
    # Given a random state in which some places are taken
    chance = Drawn(data.draw)
    snapshot, _ = make_cluster(chance, SIZE)
    shapes = Shapes(tuple(sorted(snapshot.nodes, key=lambda node: node.name)))
    known = [shapes.of(workload) for workload in snapshot.workloads]
    books = open_books(tuple(sorted(snapshot.nodes, key=lambda node: node.name)))
    mix = Mix((shape, 1) for shape in known)
    rater = Rater(mix, spread=chance.is_so(20))
    placer = Placer(books, mix=mix, spread=False)
    for shape in known[: chance.between(0, len(known))]:
        place = placer.find(shape)
        if place is not None:
            books.move(place.node, shape, place.devices, -1)
    for shape in known:
        for position in shape.nodes:
            # When the bound of a node is asked for
            node = books.nodes[position]
            bound = rater.bound(node, shape, waste=rater.waste_of(node))
            rated = min(rater.choices(node, shape), default=None)
            # Then there is one exactly where the shape fits, and no place is rated below it
            assert (bound is None) == (rated is None)
            assert rated is None or bound is None or bound <= rated[0]


def _twin(node):
    return type(node)(
        name=f"{node.name}-twin",
        devices=node.devices,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        labels=node.labels,
        schedulable=node.schedulable,
    )


def _scan(books, shape, rater):
    places = [
        (rating, position, devices)
        for position in shape.nodes
        for rating, devices in rater.choices(books.nodes[position], shape)
    ]
    return min(places)[1:] if places else None
