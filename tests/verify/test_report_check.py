"""The comparison of verification 8: page, CSV, JSON and API are all held against the same figures."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from django.test import Client

from access.models import User
from scheduler.management.verify import report_check
from scheduler.management.verify.by_hand import Account, Stretch, add, work_out
from tests.downloads import body_of
from tests.reports.ledgers import Ledger

pytestmark = pytest.mark.django_db
BEGIN, CHANGED, END = (datetime(2026, 11, 2, hour, tzinfo=UTC) for hour in (0, 1, 3))


async def _parts(answer):
    return [part async for part in answer]


class Browser:
    """Reads as the verification does; ``spoil`` changes one path's answer."""

    def __init__(self, spoil=""):
        self.client = Client()
        self.client.force_login(User.objects.create_superuser("admin", password="x"))
        self.spoil = spoil
        self.read = []

    def get(self, path, params):
        answer = self.client.get(path, params)
        assert answer.status_code == 200, path
        self.read.append(path)
        content = body_of(answer)
        if path == self.spoil:
            content = content.replace(b"0.500", b"0.501").replace(b"0.50<", b"0.51<")
        return SimpleNamespace(
            content=content, text=content.decode(), json=lambda: json.loads(content)
        )


@pytest.fixture
def script(db):
    """a holds 0.50 for an hour against 0.20, of which half an hour was idle; b holds nothing."""
    ledger = Ledger().department("dev", quota="1")
    ledger.project("a", of="dev", quota="0.20", since=BEGIN)
    held = ledger.hold("a", "0.50", BEGIN, CHANGED)
    ledger.seen(held, BEGIN, BEGIN.replace(minute=30), idle=True)
    checks = []
    sheet = SimpleNamespace(
        check=lambda *, expected, seen, where, passed=None: checks.append(
            (str(where), expected == seen if passed is None else passed)
        )
    )
    scene = SimpleNamespace(
        called=lambda name: name,
        pool_id=ledger.pool.pk,
        projects={"a": ledger.projects["a"].pk},
        departments={"dev": ledger.departments["dev"].pk},
    )
    stage = SimpleNamespace(sheet=sheet, scene=scene, browser=Browser())
    account = Account()
    account.guaranteed.append(Stretch(begin=BEGIN, end=END, mgpu=200))
    account.held.append(Stretch(begin=BEGIN, end=CHANGED, mgpu=500))
    account.idle.append(Stretch(begin=BEGIN, end=BEGIN.replace(minute=30), mgpu=500))
    rows = {"a": work_out(account, begin=BEGIN, end=END)}
    made = report_check.Script(stage=stage, begin=BEGIN, units=())
    return made, rows, checks


def carried_out(script, spoil=""):
    made, rows, checks = script
    made.stage.browser.spoil = spoil
    total = add(list(rows.values()))
    report_check._check_files(made, END, "project", rows, total)
    report_check._check_page(made, END, "project", rows, total)
    return checks


def test_all_doors_tell_what_was_worked_out_by_hand(script):
    checks = carried_out(script)
    assert len(checks) >= 8
    assert [where for where, passed in checks if not passed] == []
    assert "/api/v1/reports/consumption" in script[0].stage.browser.read


@pytest.mark.parametrize(
    "path",
    [
        "/reports",
        "/reports/consumption.csv",
        "/reports/consumption.json",
        "/api/v1/reports/consumption",
    ],
)
def test_a_last_digit_that_differs_on_any_door_is_found(script, path):
    failed = [where for where, passed in carried_out(script, spoil=path) if not passed]
    assert failed
    assert all(path in where for where in failed)
