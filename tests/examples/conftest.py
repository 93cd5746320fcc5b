"""Fixtures: a local engine for real work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import harness


@pytest.fixture
def local(tmp_path: Path) -> Iterator[harness.LocalHarness]:
    """Give the local engine on an empty folder; nothing that it started outlives the test."""
    with harness.local(tmp_path) as given:
        yield given
