"""The table of workloads: its order is in the address, rows are kept current in place; and as a file."""

from __future__ import annotations

import asyncio
import csv
import io

import pytest
from django.test import Client

from scheduler import models

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(researcher):
    """A browser of someone who sees nlp-lab alone."""
    browser = Client()
    browser.force_login(researcher)
    return browser


@pytest.fixture
def all_seeing(admin, scene):
    browser = Client()
    browser.force_login(admin)
    return browser


def file_of(answer):
    """Return the lines of a streamed file."""

    async def read():
        return b"".join([part async for part in answer.streaming_content])

    return list(csv.DictReader(io.StringIO(asyncio.run(read()).decode("utf-8-sig"))))


def test_a_head_sorts_then_turns_round_then_gives_the_first_order_back(all_seeing):
    page = all_seeing.get("/workloads?type=training").content.decode()
    assert 'href="?type=training&amp;sort=name"' in page
    page = all_seeing.get("/workloads?type=training&sort=name").content.decode()
    assert 'aria-sort="ascending"' in page
    assert 'href="?type=training&amp;sort=-name"' in page
    page = all_seeing.get("/workloads?type=training&sort=-name").content.decode()
    assert 'aria-sort="descending"' in page
    assert 'href="?type=training"' in page


def test_sorted_by_name_the_rows_are_in_its_order(all_seeing):
    rows = all_seeing.get("/workloads?sort=name").context["page"].rows
    names = [row.name for row in rows]
    assert len(names) > 2
    assert names == sorted(names)


def test_an_order_that_is_none_is_the_newest_first(all_seeing):
    assert all_seeing.get("/workloads?sort=reason").context["wanted"].sort == "-id"


def test_columns_that_were_left_out_stay_left_out(all_seeing):
    assert 'data-hidden="by submitted"' in all_seeing.get("/workloads").content.decode()
    all_seeing.cookies["tidegate_hidden_columns"] = "where.use.name.no-such"
    assert 'data-hidden="where use"' in all_seeing.get("/workloads").content.decode()


def test_rows_that_left_the_page_are_told_as_they_are_now(all_seeing):
    gone = models.Workload.objects.filter(phase="running").first()
    answer = all_seeing.get(f"/workloads/rows?state=pending&shown={gone.pk},x,")
    assert [row.pk for row in models.Workload.objects.filter(pk=gone.pk)] == [
        row.id for row in answer.context["also"]
    ]
    assert gone.pk not in {row.id for row in answer.context["page"].rows}


def test_rows_of_others_are_not_told_by_number(reader):
    others = models.Workload.objects.exclude(project__name="nlp-lab").first()
    assert reader.get(f"/workloads/rows?shown={others.pk}").context["also"] == ()


@pytest.mark.django_db(transaction=True)  # it is read in another thread
def test_the_file_has_what_the_reader_sees_as_filtered(reader, all_seeing):
    mine = file_of(reader.get("/workloads.csv"))
    assert {row["project"] for row in mine} == {"nlp-lab"}
    waiting = file_of(all_seeing.get("/workloads.csv?state=pending&sort=name"))
    expected = models.Workload.objects.filter(phase="pending", deleted_at=None).order_by("name")
    assert [row["name"] for row in waiting] == [row.name for row in expected]


def test_newer_decisions_are_counted_as_filtered_and_as_seen(reader, all_seeing):
    every = models.Decision.objects.exclude(project=None).count()
    found = all_seeing.get("/decisions/newer?after=0").json()
    assert found["newer"] >= min(every, 99)
    last = models.Decision.objects.order_by("-id").first()
    assert all_seeing.get(f"/decisions/newer?after={last.pk}").json() == {"newer": 0, "more": False}
    own = models.Decision.objects.filter(project__name="nlp-lab").count()
    assert reader.get("/decisions/newer?after=0").json()["newer"] == own
