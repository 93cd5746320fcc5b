"""``manage.py lock``: makes the lock files anew from the requirements files."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from dashboard.launch.install import ROOT, home
from dashboard.launch.screen import Screen

# In this order: each lock keeps to the versions of those before it.
NAMES = ("boot", "", "demo", "test", "lint", "docs", "ray", "otel", "kubernetes", "model")
APART = frozenset({"boot", "model"})
OPTIONS = (
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-header",
    "--no-annotate",
    "--quiet",
)


def main(argv: Sequence[str]) -> int:
    screen = Screen()
    before: list[str] = []
    for name in NAMES:
        stem = f"requirements-{name}" if name else "requirements"
        options = [*OPTIONS, *argv, f"--output-file={stem}.lock"]
        if name in APART:
            options.append("--no-deps")
        else:
            options += [f"--constraint={lock}" for lock in before]
            before.append(f"{stem}.lock")
        uv = str(home() / ".boot" / "bin" / "uv")
        with screen.step(f"{stem}.lock"):
            subprocess.run([uv, "pip", "compile", *options, f"{stem}.txt"], cwd=ROOT, check=True)
    return 0
