"""The deployment files: systemd's own check where it is there, and what must not be lost from them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from tests.test_docs import ROOT, VARIABLE

DEPLOY = ROOT / "deploy"


def test_units_hold_before_systemd(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze: systemd's units are not checked")
    for unit in (DEPLOY / "systemd").glob("tidegate*.*"):
        if unit.suffix in (".service", ".timer"):
            # The programs are those of the machine that it goes to.
            text = re.sub(r"ExecStart(Post)?=.*", r"ExecStart\1=/bin/true", unit.read_text())
            (tmp_path / unit.name).write_text(text)
    units = [str(unit) for unit in sorted(tmp_path.iterdir())]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(units) == 3
    assert (done.returncode, done.stderr) == (0, "")


def test_a_restart_of_the_service_leaves_work_alone():
    unit = (DEPLOY / "systemd" / "tidegate.service").read_text()
    assert "\nKillMode=process\n" in unit
    assert "\nKillSignal=SIGINT\n" in unit


def test_compose_names_only_settings_that_are_there_and_no_password():
    text = (DEPLOY / "compose.yaml").read_text()
    composed = yaml.safe_load(text)
    assert set(composed["services"]) == {"tidegate", "postgres", "valkey"}
    known = set(VARIABLE.findall((ROOT / "docs" / "settings.md").read_text()))
    assert set(VARIABLE.findall(text)) <= known
    for service in composed["services"].values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name:
                assert value.startswith("${")


def test_the_environment_file_names_only_settings_that_are_there():
    text = (DEPLOY / "systemd" / "tidegate.env").read_text()
    known = set(VARIABLE.findall((ROOT / "docs" / "settings.md").read_text()))
    assert set(VARIABLE.findall(text)) <= known


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_proxies_pass_streams_on_as_they_come(name):
    text = (DEPLOY / "proxy" / name).read_text()
    assert "/api/v1/decisions/stream" in text
    assert "/v1/" in text
    assert "X-Forwarded-Proto" in text
    assert ("proxy_buffering off" in text) or ("flush_interval -1" in text)
