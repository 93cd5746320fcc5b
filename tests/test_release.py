"""What a release must not leave behind: one version, its changelog entry, fresh locks, plain texts."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest

from tests.doc_blocks import ROOT, pages
from tidegate import __version__

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
SETS = sorted(file.stem for file in ROOT.glob("requirements*.txt"))
#: A long dash, and what is not yet done.
FORBIDDEN = re.compile("\u2014|\\b(?:TODO|FIXME|XXX)\\b")


def test_one_version_everywhere():
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))
    assert client["project"]["version"] == VERSION
    assert __version__ == VERSION
    assert f"image: tidegate:{VERSION}\n" in (ROOT / "deploy" / "compose.yaml").read_text()


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (\S+?),? .*$", text, re.M)
    assert first
    assert first[1].rstrip(",") == VERSION


def test_the_license_is_there_and_named():
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    for file in ("pyproject.toml", "client/pyproject.toml"):
        found = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
        assert found["license"] == "Apache-2.0"


@pytest.mark.parametrize("name", SETS)
def test_each_lock_has_what_its_requirements_pin(name):
    pinned = re.findall(
        r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)",
        (ROOT / f"{name}.txt").read_text(encoding="utf-8"),
        re.M,
    )
    lock = (ROOT / f"{name}.lock").read_text(encoding="utf-8").lower()
    assert pinned
    missing = [
        f"{package}=={version}"
        for package, version in pinned
        if f"{re.sub('[-_.]+', '-', package).lower()}=={version}" not in lock
    ]
    assert missing == []  # python3 manage.py lock


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_texts_are_plain_and_done(page):
    text = page.read_text(encoding="utf-8")
    found = [line for line in text.splitlines() if FORBIDDEN.search(line)]
    assert found == []


def test_nothing_is_carried_that_a_run_leaves_behind():
    listed = subprocess.run(
        ["git", "ls-files", "*.pyc", "var", ".venv", "*.sqlite3", "*.egg-info", "client/build"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    assert listed.stdout == ""
