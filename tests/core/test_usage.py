"""The ledger's figures: worked examples by hand, and the identities on random step functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core import usage
from scheduler.core.usage import DAY_US, GPU_HOUR, HOUR_US, Figures, Meter

MINUTE_US = HOUR_US // 60


def at(hour, minute=0):
    return hour * HOUR_US + minute * MINUTE_US


@dataclass
class Queue:
    """A project in a pool as step functions."""

    held: list = field(default_factory=list)
    quota: list = field(default_factory=list)
    idle: list = field(default_factory=list)
    active: list = field(default_factory=list)
    prices: list = field(default_factory=list)

    def rows(self, marks):
        meter = Meter(cuts=marks)
        for step in self.held:
            meter.hold(step=step, prices=self.prices)
        for step in self.quota:
            meter.guarantee(step=step)
        for step in self.idle:
            meter.measure(step=step, idle=True, prices=self.prices)
        for step in self.active:
            meter.measure(step=step, idle=False)
        return meter.rows()


def clip(step, begin, end):
    begin, end = max(step[0], begin), min(step[1], end)
    return [(begin, end, step[2])] if begin < end else []


def one(queue, from_us, to_us):
    return queue.rows([from_us, to_us])[0]


# --- By hand --------------------------------------------------------------------------------------


def test_time_spent_preempted_is_not_charged():
    # Given a training of 0.50 that runs 10:00 - 10:20, waits, and runs 10:50 - 11:10; no guarantee
    queue = Queue(held=[(at(10), at(10, 20), 500), (at(10, 50), at(11, 10), 500)])

    row = one(queue, at(10), at(12))

    # Then 40 minutes of one half are charged, and all of it was borrowed
    assert row.allocated * 3 == GPU_HOUR
    assert row.over_quota * 3 == GPU_HOUR
    assert row.deserved == row.unused == 0


def test_a_quota_changed_at_noon_counts_from_noon():
    queue = Queue(
        held=[(0, DAY_US, 400)],
        quota=[(0, at(12), 300), (at(12), DAY_US, 600)],
    )

    row = one(queue, 0, DAY_US)

    assert row.deserved * 10 == 108 * GPU_HOUR
    assert row.over_quota * 10 == 12 * GPU_HOUR
    assert row.allocated * 10 == 96 * GPU_HOUR
    assert row.unused * 10 == 24 * GPU_HOUR


def test_a_quota_halved_in_the_middle_of_a_day_deserves_five_point_four():
    queue = Queue(quota=[(0, at(12), 300), (at(12), DAY_US, 150)])

    assert one(queue, 0, DAY_US).deserved * 10 == 54 * GPU_HOUR


def test_a_project_made_at_six_deserves_eighteen_hours():
    queue = Queue(quota=[(at(6), DAY_US, 1000)])

    assert one(queue, 0, DAY_US).deserved == 18 * GPU_HOUR


def test_two_projects_side_by_side_do_not_lend_inside_the_sum():
    # Given one project 0.2 over its guarantee and its sibling 0.2 below its own
    over = one(Queue(held=[(0, HOUR_US, 500)], quota=[(0, HOUR_US, 300)]), 0, HOUR_US)
    under = one(Queue(held=[(0, HOUR_US, 100)], quota=[(0, HOUR_US, 300)]), 0, HOUR_US)

    department = over + under

    # Then the department's row is their sum, although it is within its own totals
    assert department.over_quota == 200 * HOUR_US
    assert department.unused == 200 * HOUR_US
    whole = Queue(held=[(0, HOUR_US, 500), (0, HOUR_US, 100)], quota=[(0, HOUR_US, 600)])
    assert one(whole, 0, HOUR_US).over_quota == 0


def test_cpu_and_memory_are_integrals_too():
    meter = Meter(cuts=[0, HOUR_US])
    meter.hold(step=(0, 2 * HOUR_US, 90), cpu_milli=1500, memory_mib=2048)

    row = meter.rows()[0]

    assert row.cpu * 2 == 3 * GPU_HOUR
    assert row.memory == 2 * usage.GIB_HOUR


def test_a_price_counts_from_its_date():
    queue = Queue(held=[(at(10), at(14), 500)], prices=[(at(0), 740_000), (at(12), 800_000)])

    assert one(queue, 0, DAY_US).cost == (74 + 80) * usage.CURRENCY


def test_before_the_first_price_nothing_is_charged():
    queue = Queue(held=[(at(10), at(14), 500)], prices=[(at(12), 740_000)])

    assert one(queue, 0, DAY_US).cost == 74 * usage.CURRENCY


def test_what_no_sample_covers_is_unknown_and_not_idle():
    queue = Queue(
        held=[(0, HOUR_US, 1000)],
        idle=[(0, 10 * MINUTE_US, 1000)],
        active=[(30 * MINUTE_US, HOUR_US, 1000)],
    )

    row = one(queue, 0, HOUR_US)

    assert (row.idle, row.unknown, row.active) == (
        1000 * 10 * MINUTE_US,
        1000 * 20 * MINUTE_US,
        1000 * 30 * MINUTE_US,
    )


def test_a_row_that_breaks_an_identity_is_named():
    row = Figures(allocated=5, over_quota=1, unused=0, deserved=5, idle=6)

    assert usage.problems(row=row) == [
        "allocation - over quota + unused guarantee = deserved",
        "unknown >= 0",
    ]


# --- On random step functions ---------------------------------------------------------------------

END = 1000
times = st.integers(min_value=-50, max_value=END + 50)
amounts = st.integers(min_value=0, max_value=3000)


@st.composite
def steps(draw):
    found = []
    for _ in range(draw(st.integers(min_value=0, max_value=8))):
        begin, end = sorted((draw(times), draw(times)))
        found.append((begin, end, draw(amounts)))
    return found


@st.composite
def queues(draw):
    """A project whose activity covers parts of what it holds."""
    queue = Queue(held=draw(steps()), quota=draw(steps()), prices=[(-100, 74), (draw(times), 99)])
    for begin, end, mgpu in queue.held:
        first, second = sorted((draw(times), draw(times)))
        queue.idle += clip((begin, min(first, end), mgpu), begin, end)
        queue.active += clip((second, end, mgpu), begin, end)
    return queue


cuts = st.lists(st.integers(min_value=0, max_value=END), min_size=2, max_size=9, unique=True).map(
    sorted
)


@given(queue=queues(), marks=cuts)
def test_every_identity_holds_in_every_slot(queue, marks):
    for row in queue.rows(marks):
        assert usage.problems(row=row) == []


@given(queue=queues(), marks=cuts)
def test_slots_add_up_to_the_whole(queue, marks):
    slots = queue.rows(marks)

    assert usage.sum_figures(rows=slots) == one(queue, marks[0], marks[-1])


@given(queue=queues(), marks=cuts)
def test_figures_equal_those_of_a_sum_over_every_microsecond(queue, marks):
    expected_over = expected_unused = expected_held = 0
    for now in range(marks[0], marks[-1]):
        held = sum(mgpu for begin, end, mgpu in queue.held if begin <= now < end)
        quota = sum(mgpu for begin, end, mgpu in queue.quota if begin <= now < end)
        expected_held += held
        expected_over += max(0, held - quota)
        expected_unused += max(0, quota - held)

    row = one(queue, marks[0], marks[-1])

    assert (row.allocated, row.over_quota, row.unused) == (
        expected_held,
        expected_over,
        expected_unused,
    )


@given(queue=queues(), moved_at=st.integers(min_value=1, max_value=END - 1))
def test_a_project_that_moves_keeps_its_hours_on_both_sides(queue, moved_at):
    """Cutting each step function at the move and giving one side to each department loses nothing."""
    before, after = Queue(prices=queue.prices), Queue(prices=queue.prices)
    for name in ("held", "quota", "idle", "active"):
        for step in getattr(queue, name):
            getattr(before, name).extend(clip(step, -100, moved_at))
            getattr(after, name).extend(clip(step, moved_at, END + 100))

    assert one(before, 0, END) + one(after, 0, END) == one(queue, 0, END)
