"""Whose hours a report tells, and under which names: deleted, made again, renamed; whom it shows what."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.test import Client

from access.models import User
from reports import numbers
from reports.consumption import Segment
from reports.csv_export import report_csv
from scheduler.queries.visibility import Visibility
from tests.reports.ledgers import Ledger, utc
from tests.reports.test_consumption import hours, report


@pytest.fixture
def month(db):
    """alpha used 5 and was deleted, a new alpha used 2, beta used 3, became gamma and used 4."""
    ledger = Ledger().department("dev", quota="1")
    ledger.project("alpha", of="dev")
    ledger.hold("alpha", "1", utc(2026, 11, 1), utc(2026, 11, 1, 5))
    ledger.delete("alpha", at=utc(2026, 11, 10))
    ledger.project("alpha", of="dev").project("beta", of="dev")
    ledger.hold("alpha", "1", utc(2026, 11, 20), utc(2026, 11, 20, 2))
    ledger.hold("beta", "1", utc(2026, 11, 2), utc(2026, 11, 2, 3), user="gone")
    ledger.rename("beta", "gamma", at=utc(2026, 11, 15))
    ledger.hold("beta", "1", utc(2026, 11, 16), utc(2026, 11, 16, 4), user="gone")
    return ledger


def test_b33_deleted_made_again_and_renamed_projects_keep_their_hours(month):
    made = report("2026-11-01", "2026-12-01")

    assert hours(made) == {
        "alpha": "2.000",
        "alpha (deleted 2026-11-10)": "5.000",
        "gamma": "7.000",
    }
    assert numbers.gpu_hours(made.total.figures.allocated) == "14.000"
    assert len({row.unit.id for row in made.units}) == 3


def test_b33_an_old_name_can_be_found_in_the_period_in_which_it_was_borne(month):
    # Given beta, which is called gamma since the 15th, and later for a while delta
    month.rename("beta", "delta", at=utc(2026, 11, 18)).rename(
        "beta", "gamma", at=utc(2026, 11, 19)
    )

    november = {row.unit.name: row.unit.former for row in report("2026-11-01", "2026-12-01").units}
    afterwards = {
        row.unit.name: row.unit.former for row in report("2026-11-16", "2026-12-01").units
    }
    document = b"".join(report_csv(report=report("2026-11-01", "2026-12-01"))).decode("utf-8-sig")
    lines = {line["name"]: line["former_names"] for line in csv.DictReader(io.StringIO(document))}

    assert november == {"alpha": (), "alpha (deleted 2026-11-10)": (), "gamma": ("beta", "delta")}
    assert afterwards == {"alpha": (), "gamma": ("delta",)}
    assert lines == {"alpha": "", "alpha (deleted 2026-11-10)": "", "gamma": "beta|delta"}


def test_the_page_and_the_search_find_an_old_name(month):
    client = Client()
    client.force_login(User.objects.create_superuser("admin", password="x"))
    gamma = month.projects["beta"]

    page = client.get(
        "/reports?period=custom&from=2026-11-01&to=2026-12-01&zone=UTC"
    ).content.decode()
    unit = client.get(f"/projects/{gamma.slug}").content.decode()
    found = client.get("/search?q=BET").content.decode()

    assert re.search(rf'data-row="{gamma.pk}-.*?formerly beta', page, re.DOTALL)
    assert "gamma (formerly beta)" in page
    assert "formerly beta" in unit
    assert re.search(rf'project={gamma.pk}">gamma</a> <span class="sub">formerly beta', found)


def test_b33_the_manager_of_a_new_project_does_not_see_the_old_ones_hours(month):
    manager = Visibility(project_ids=frozenset({month.projects["alpha"].pk}))

    made = report("2026-11-01", "2026-12-01", visible=manager)

    assert hours(made) == {"alpha": "2.000"}
    assert numbers.gpu_hours(made.total.figures.allocated) == "2.000"


def test_totals_and_what_others_lent_are_told_within_ones_scope_only(month):
    manager = Visibility(project_ids=frozenset({month.projects["alpha"].pk}))

    made = report("2026-11-01", "2026-12-01", visible=manager, segment=Segment.DEPARTMENT)

    assert hours(made) == {"dev": "2.000"}
    assert made.units[0].beyond is None
    assert made.total.beyond is None


def test_b33_work_of_a_deleted_user_is_still_counted(month):
    assert hours(report("2026-11-01", "2026-12-01", segment=Segment.USER))["gone"] == "7.000"
