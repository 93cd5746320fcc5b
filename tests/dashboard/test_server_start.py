"""What a server has loaded before it takes its first request."""

from __future__ import annotations

import os
import subprocess
import sys

LOADS = """
import sys
import dashboard.asgi
print("dashboard.api.app" in sys.modules and "dashboard.views.overview" in sys.modules)
"""


def test_pages_and_api_are_loaded_before_the_first_request(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LOADS],
        env={**os.environ, "TIDEGATE_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.strip() == "True"
