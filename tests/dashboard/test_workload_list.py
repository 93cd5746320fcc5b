"""The table of workloads: its order is in the address, rows are kept current in place; and as a file."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
from dataclasses import replace

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard.views import workload_list
from scheduler import models
from scheduler.queries import keyset
from scheduler.queries import workloads as queries
from scheduler.queries.visibility import WHOLE_CLUSTER

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


def test_pages_of_each_order_have_each_row_once_though_many_are_equal(scene):
    rows = models.Workload.objects.all()
    for sort in queries.Sort:
        # Given more rows than there are priorities, kinds and states
        whole, _end = keyset.page(rows, sort=sort, after="", limit=1000)
        column = sort.removeprefix("-")
        values = [getattr(row, column) for row in whole]
        assert values == sorted(values, reverse=sort.startswith("-")), sort
        assert len(values) == rows.count() > 10
        if column in ("priority", "kind", "phase"):
            assert len(set(values)) < len(values) / 2, sort
        # When they are read a few at a time
        found, after = [], ""
        while len(found) <= len(whole):
            page, after = keyset.page(rows, sort=sort, after=after, limit=3)
            found += page
            if not after:
                break
        # Then they come in the same order, none twice and none left out
        assert found == whole, sort


@pytest.mark.parametrize("sort", list(queries.Sort))
def test_a_page_of_each_order_is_walked_along_an_index(scene, sort):
    if connection.vendor != "sqlite":
        pytest.skip("plans are SQLite's")
    # Given a page of each order, the first and one behind it, as it is asked of the database
    wanted = queries.WorkloadFilter(sort=sort, limit=3)
    first = queries.list_workloads(visible=WHOLE_CLUSTER, wanted=wanted)
    for after in ("", first.next_after):
        with CaptureQueriesContext(connection) as asked:
            queries.list_workloads(visible=WHOLE_CLUSTER, wanted=replace(wanted, after=after))
        chosen = [each["sql"] for each in asked if each["sql"].endswith(" LIMIT 4")]
        assert len(chosen) == 1
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {chosen[0]}")
            steps = [str(row[-1]) for row in cursor.fetchall()]
        # Then nothing is sorted
        assert not [step for step in steps if "TEMP B-TREE" in step], steps
        # And the page behind begins where the first ended
        if after:
            column = "rowid" if sort.endswith("id") else sort.removeprefix("-")
            sign = "<" if sort.startswith("-") else ">"
            assert [step for step in steps if f"{column}{sign}?" in step], steps


def mark(value, row_id=1):
    return base64.urlsafe_b64encode(json.dumps([value, row_id]).encode()).decode().rstrip("=")


UNREADABLE = [
    ("priority", mark("name")),
    ("priority", mark(10**30)),
    ("priority", mark(None)),
    ("priority", mark(True)),
    ("name", mark(7)),
    ("name", mark("a\0b")),
    ("name", mark("a", "b")),
    ("submitted_at", mark("2026-13-41T25:00:00Z")),
    ("submitted_at", mark("0001-01-01T00:00:00+23:00")),
    ("submitted_at", mark("2026-11-02T00:00:00")),
    ("id", mark({}, -(10**30))),
    ("id", "!"),
    ("id", "é"),
]


def test_where_a_page_ended_that_can_not_be_read_begins_at_the_front(scene):
    def read(sort, after=""):
        wanted = queries.WorkloadFilter(sort=queries.Sort(sort), after=after, limit=3)
        return [row.id for row in queries.list_workloads(visible=WHOLE_CLUSTER, wanted=wanted).rows]

    for sort, after in UNREADABLE:
        assert read(sort, after) == read(sort), (sort, after)


def test_what_there_is_none_of_is_named_and_makes_no_file(all_seeing):
    for given in ("sort=reason", "state=runing", "type=web", "project=nlp"):
        page = all_seeing.get(f"/workloads?{given}&idle=1")
        assert page.context["wanted"].sort == "-id"
        assert f"There is no {given}: it was left out." in page.content.decode()
        answer = all_seeing.get(f"/workloads.csv?{given}")
        assert answer.status_code == 400
        assert answer.content.decode() == f"There is no {given}. Correct the address."
    assert "it was left out" not in all_seeing.get("/workloads?sort=name").content.decode()


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


@pytest.mark.django_db(transaction=True)  # it is read in another thread
def test_the_file_goes_on_over_its_pieces_and_begins_no_formula(all_seeing, monkeypatch):
    one = models.Workload.objects.order_by("name").first()
    models.Workload.objects.filter(pk=one.pk).update(name="=1+1", submitted_by="@SUM(A1)")
    monkeypatch.setattr(workload_list, "LINES_A_READ", 2)
    lines = file_of(all_seeing.get("/workloads.csv?sort=priority"))
    expected = models.Workload.objects.filter(deleted_at=None).order_by("priority", "id")
    assert [int(row["workload_id"]) for row in lines] == [row.pk for row in expected]
    told = next(row for row in lines if row["workload_id"] == str(one.pk))
    assert (told["name"], told["submitted_by"]) == ("'=1+1", "'@SUM(A1)")


def test_newer_decisions_are_counted_as_filtered_and_as_seen(reader, all_seeing):
    every = models.Decision.objects.exclude(project=None).count()
    found = all_seeing.get("/decisions/newer?after=0").json()
    assert found["newer"] >= min(every, 99)
    last = models.Decision.objects.order_by("-id").first()
    assert all_seeing.get(f"/decisions/newer?after={last.pk}").json() == {"newer": 0, "more": False}
    own = models.Decision.objects.filter(project__name="nlp-lab").count()
    assert reader.get("/decisions/newer?after=0").json()["newer"] == own
