"""The cluster of this test run: started once, for whoever asks first."""

from __future__ import annotations

import pytest

from dashboard.management.own_cluster import cluster as make_cluster


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory):
    """Give the cluster of three nodes. Its folder has a short name: sockets lie in it."""
    with make_cluster(tmp_path_factory.mktemp("ray")) as made:
        yield made
