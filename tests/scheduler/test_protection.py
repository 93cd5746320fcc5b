"""What protects a service: each of the three defences with its figures, and only to whom they are shown."""

from __future__ import annotations

import pytest

from scheduler.core.vocabulary import Kind
from scheduler.queries.phrases import plain
from scheduler.queries.protection import read_protection
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from tests.scheduler import places

pytestmark = pytest.mark.django_db

SERVICE = {"of": "prod-app", "gpu": "0.25", "kind": Kind.INFERENCE, "command": ["fake"]}


def made(ticker, *, guarantee="0", dev_limit=None, preemptible=True, borrows=None):
    place = (
        places.card()
        .department("prod", quota=guarantee)
        .department("dev", quota="0.75", limit=dev_limit)
        .project("prod-app", of="prod", quota=guarantee)
        .project("dev-lab", of="dev", quota="0.75", limit=dev_limit)
    )
    place.submit("answers", preemptible=preemptible, priority=25, **SERVICE)
    if borrows:
        place.submit("extra", of="prod-app", gpu=borrows, command=["fake"])
    ticker.settle()
    return place


def seen(place, visible=WHOLE_CLUSTER):
    found = read_protection(visible=visible, workload_id=place.workloads["answers"].pk)
    return found, [each.holds for each in found.defences], [plain(d.text) for d in found.defences]


def test_none_of_the_three_and_each_says_what_is_missing(ticker):
    found, holds, texts = seen(made(ticker))
    assert (holds, found.holding) == ([False, False, False], 0)
    assert "up to 1.00 of 1.00: only 0.00 are sure to stay, and it needs 0.25" in texts[0]
    assert "prod-app is guaranteed 0.00, and it needs 0.25" in texts[1]
    assert "a priority above 25 can take its place" in texts[2]


@pytest.mark.parametrize(
    ("about", "expected", "figures"),
    [
        ({"dev_limit": "0.75"}, [True, False, False], "0.75 of 1.00 at most: 0.25 stay"),
        ({"guarantee": "0.25"}, [False, True, False], "holds 0.25 of the 0.25"),
        (
            {"guarantee": "0.25", "preemptible": False},
            [False, True, True],
            "holds 0.25 of the 0.25",
        ),
    ],
)
def test_each_defence_alone_is_told_with_its_figures(ticker, about, expected, figures):
    _found, holds, texts = seen(made(ticker, **about))
    assert holds == expected
    assert any(figures in text for text in texts)


def test_a_project_that_borrows_can_lose_what_it_borrows(ticker):
    _found, holds, texts = seen(made(ticker, guarantee="0.25", borrows="0.10"))
    assert holds[1] is False
    assert "holds 0.35, more than the 0.25 that it is guaranteed" in texts[1]


def test_a_reader_of_one_project_is_told_nothing_of_the_others_limits(ticker):
    place = made(ticker, dev_limit="0.75")
    own = Visibility(project_ids=frozenset({place.projects["prod-app"].pk}))
    _found, holds, texts = seen(place, own)
    assert holds[0] is None
    assert not any(character.isdigit() for character in texts[0])
    other = Visibility(project_ids=frozenset({place.projects["dev-lab"].pk}))
    assert read_protection(visible=other, workload_id=place.workloads["answers"].pk) is None
