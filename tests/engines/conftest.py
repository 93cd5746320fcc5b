"""Fixtures: a local engine with real processes, and each engine in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import harness
from tests.kubernetes.harness import kubernetes
from tests.remote.direct import NodesHarness


@pytest.fixture
def local(tmp_path: Path) -> Iterator[harness.LocalHarness]:
    """Give the local engine on an empty folder; nothing that it started outlives the test."""
    with harness.local(tmp_path) as given:
        yield given


@pytest.fixture(
    params=[
        "local",
        "fake",
        "ray",
        "kubernetes",
        pytest.param("kubernetes-real", marks=pytest.mark.kubernetes),
    ]
)
def any_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[harness.Harness]:
    """Give every engine in turn."""
    if request.param == "fake":
        yield harness.FakeHarness()
        return
    if request.param == "ray":
        nodes = NodesHarness(tmp_path)
        yield nodes
        nodes.clean_up()
        return
    if request.param.startswith("kubernetes"):
        pytest.importorskip("kubernetes", reason="the Kubernetes client is not installed")
        is_real = request.param.endswith("real")
        server = request.getfixturevalue("api_server") if is_real else None
        with kubernetes(tmp_path, server) as pods:
            yield pods
        return
    with harness.local(tmp_path) as given:
        yield given
