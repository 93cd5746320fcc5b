"""``manage.py end_work`` stops everything that runs."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from scheduler import models
from scheduler.management.commands import end_work
from tests.scheduler import places

pytestmark = pytest.mark.django_db(transaction=True)


def test_all_is_stopped_and_nothing_runs(ticker, monkeypatch, capsys):
    place = places.article()
    for number in range(1, 8):
        place.submit(f"train-{number}", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    monkeypatch.setattr(end_work, "LOOK_S", 0)
    monkeypatch.setattr(end_work, "run_tick", lambda owner: ticker.tick(seconds=1, owner=owner))
    call_command("end_work")
    assert set(place.phases().values()) == {"stopped"}
    assert ticker.engine.observe() == ()
    assert models.Device.objects.get().allocated_mgpu == 0
    assert "7 workloads are stopped" in capsys.readouterr().out
