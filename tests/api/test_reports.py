"""The report over the API equals the page's downloads."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.django_db


async def _gather(answer):
    return b"".join([part async for part in answer])


def test_json_and_csv_have_the_figures_of_the_downloads(api):
    from asgiref.sync import async_to_sync

    query = "period=yesterday&by=project&zone=Asia/Taipei"
    ours = api.get(f"/reports/consumption?{query}")
    assert ours.status_code == 200
    pages = api.client.get(f"/reports/consumption.json?{query}")
    told, shown = ours.json(), json.loads(pages.content)
    told.pop("made_at"), shown.pop("made_at")
    assert told == shown
    csv = async_to_sync(_gather)(api.get(f"/reports/consumption.csv?{query}"))
    page_csv = async_to_sync(_gather)(api.client.get(f"/reports/consumption.csv?{query}"))
    assert csv == page_csv


def test_a_period_that_means_nothing_is_told(api):
    answer = api.get("/reports/consumption?from=2026-13-40&to=2026-11-01")
    assert answer.status_code == 422
    assert answer.json()["code"] == "report_refused"
