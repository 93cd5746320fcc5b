"""What a person types: commands that are not there, ports that are none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dashboard.launch import options
from dashboard.launch.install import ROOT


@pytest.mark.parametrize("typed", ["abc", "-1", "65536", "8000.0", ""])
def test_what_is_no_port_is_said_in_words(typed, capsys):
    with pytest.raises(SystemExit, match="2"):
        options.parse([f"--port={typed}"])
    assert f"{typed!r} is not a port number" in capsys.readouterr().err


def test_a_port_of_the_environment_is_held_to_the_same(monkeypatch, capsys):
    monkeypatch.setenv("TIDEGATE_PORT", "abc")
    with pytest.raises(SystemExit, match="2"):
        options.parse([])
    assert "TIDEGATE_PORT: 'abc' is not a port number" in capsys.readouterr().err


@pytest.mark.parametrize("typed", [[], ["help"], ["--help"]])
def test_without_a_command_the_products_own_are_listed_without_any_set_up(typed):
    python = [sys.executable, "-I", "-S", "manage.py"]
    done = subprocess.run([*python, *typed], cwd=ROOT, capture_output=True, text=True, check=True)
    for command in ("up", "test", "decide", "verify", "end_work"):
        assert f"\n  {command} " in done.stdout
