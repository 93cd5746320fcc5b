"""The report over the API equals the page's downloads."""

from __future__ import annotations

import csv
import io
import json

import pytest

from reports.parquet_export import is_possible
from scheduler import models
from tests.downloads import body_of

pytestmark = pytest.mark.django_db


def test_json_and_csv_have_the_figures_of_the_downloads(api):
    query = "period=yesterday&by=project&zone=Asia/Taipei"
    ours = api.get(f"/reports/consumption?{query}")
    assert ours.status_code == 200
    pages = api.client.get(f"/reports/consumption.json?{query}")
    told, shown = ours.json(), json.loads(pages.content)
    told.pop("made_at"), shown.pop("made_at")
    assert told == shown
    ours = body_of(api.get(f"/reports/consumption.csv?{query}"))
    assert ours == body_of(api.client.get(f"/reports/consumption.csv?{query}"))
    parquet = api.get(f"/reports/consumption.parquet?{query}")
    if is_possible():
        assert parquet.content == api.client.get(f"/reports/consumption.parquet?{query}").content
    else:
        assert (parquet.status_code, parquet.json()["code"]) == (422, "report_refused")


def test_a_period_that_means_nothing_is_told(api):
    answer = api.get("/reports/consumption?from=2026-13-40&to=2026-11-01")
    assert answer.status_code == 422
    assert answer.json()["code"] == "report_refused"


def test_a_date_beyond_what_clocks_can_tell_is_refused_at_every_door(api):
    for path in (
        "/reports/consumption?zone=Asia/Taipei&from=0001-01-01&to=0001-01-02",
        "/reports/promise?zone=Asia/Taipei&from=0001-01-01&to=0001-01-02",
        "/audit?from_at=0001-01-01T00:00:00%2B14:00",
        "/audit?to_at=9999-12-31T23:59:59-12:00",
    ):
        assert api.get(path).status_code == 422, path


@pytest.mark.parametrize("of", ["intervals", "activity", "guarantee"])
def test_what_stands_behind_a_figure_is_that_of_the_page(api, of):
    query = "period=yesterday&by=project&zone=Asia/Taipei"
    ours = body_of(api.get(f"/reports/intervals.csv?{query}&of={of}"))
    assert ours == body_of(api.client.get(f"/reports/consumption.{of}.csv?{query}"))
    assert ours


def test_how_guarantees_were_kept_is_the_table_of_the_page(api):
    query = "period=7d&zone=Asia/Taipei"
    told = api.get(f"/reports/promise?{query}").json()
    page = body_of(api.client.get(f"/reports/consumption.promise.csv?{query}")).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(page)))
    steady = (
        "project",
        "entitled_requests_waiting",
        "interruptions_suffered",
        "work_lost_gpu_hours",
    )
    assert [{name: line[name] for name in steady} for line in told] == [
        {name: row[name] for name in steady} for row in rows
    ]
    assert set(told[0]) < set(rows[0])
    assert told
    answer = api.get("/reports/promise?from=2026-01-01&to=2026-12-01")
    assert (answer.status_code, answer.json()["code"]) == (422, "report_refused")


def test_a_month_is_closed_once_by_an_admin_and_read_as_csv(api, api_of):
    body = {"month": "2026-01"}
    refused = api_of("project_admin").post("/reports/statements", body)
    assert (refused.status_code, refused.json()["code"]) == (403, "months_are_for_admins")
    assert not models.Statement.objects.exists()
    made = api.post("/reports/statements", body)
    assert (made.status_code, made.json()["month"]) == (201, "2026-01")
    number = made.json()["number"]
    assert body_of(api.get(f"/reports/statements/{number}.csv")) == body_of(
        api.client.get(f"/reports/statements/{number}.csv")
    )
    again = api.post("/reports/statements", body)
    assert (again.status_code, again.json()["problems"][0]["code"]) == (409, "month_closed")
    for wrong in ("2026-13", "2099-01"):
        assert api.post("/reports/statements", {"month": wrong}).status_code == 422
    assert models.AuditEntry.objects.filter(action="month.close", door="api").count() == 1
