"""Every command of the documentation, as it is written, on one running product."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

from dashboard.launch.install import home
from tests.doc_blocks import ROOT, blocks_of, pages

pytestmark = pytest.mark.product
ADDRESS = "http://127.0.0.1:8000"
WALK = ROOT / "docs" / "start" / "command-line.md"
PAGE_S = 300
#: Printed by the shell itself when it has come to the end of what it was given.
TYPED = "typed to the end"
#: Chinese pages have the commands of the English ones (tests/test_docs.py).
WITH_COMMANDS = [
    page
    for page in pages()
    if page != WALK
    and not page.name.endswith(".zh-TW.md")
    and any(block.language == "sh" and not block.not_run for block in blocks_of(page))
]


class Newcomer:
    """Someone with a clone, a terminal, and the documentation."""

    def __init__(self, product, clone: Path) -> None:
        self.product = product
        self.clone = clone
        clone.mkdir()
        for each in ROOT.iterdir():
            if each.name == "client":  # an installation builds in it
                shutil.copytree(each, clone / each.name, ignore=shutil.ignore_patterns("build"))
            elif not each.name.startswith(".") and each.name != "var":
                (clone / each.name).symlink_to(each)

    def environment(self) -> dict[str, str]:
        own = {
            "XDG_CONFIG_HOME": str(self.clone / "config"),
            "PATH": f"{self.clone / 'client-env' / 'bin'}:{os.environ['PATH']}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "TERM": "dumb",
        }
        return {**self.product.env(), **own}

    def type(self, text: str, **environment: str) -> str:
        """Type lines into a shell that ends at the first that fails; return all that was printed."""
        for written, meant in self._replaced().items():
            text = text.replace(written, meant)
        done = subprocess.run(
            ["bash", "-exo", "pipefail", "-c", f"{text}\nprintf '%s' '{TYPED}'"],
            cwd=self.clone,
            env={**self.environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PAGE_S,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stdout}"
        return done.stdout

    @cached_property
    def token(self) -> str:
        """Return an access token of the administrator."""
        return str(self.product.manage("token", "admin").stdout.strip())

    def read(self, page: Path, **environment: str) -> str:
        """Type all commands of a page, in order, in one shell."""
        blocks = [
            block for block in blocks_of(page) if block.language == "sh" and not block.not_run
        ]
        return self.type("\n".join(block.text for block in blocks), **environment)

    def _replaced(self) -> dict[str, str]:
        meant = {ADDRESS: self.product.address}
        uv = home() / ".boot" / "bin" / "uv"
        if importlib.util.find_spec("ensurepip") is None and uv.exists():  # a bare Debian
            meant["python3 -m venv"] = f"{uv} venv --quiet --clear --seed --python {sys.executable}"
        return meant


@pytest.fixture(scope="module")
def newcomer(make_product, tmp_path_factory):
    product = make_product("--demo", "card").start()
    yield Newcomer(product, tmp_path_factory.mktemp("newcomer") / "tidegate")
    product.close()


@pytest.fixture(scope="module")
def walked(newcomer):
    """What the walk from the command line printed; after it the client is installed and signed in."""
    return newcomer.read(WALK)


def test_a_newcomer_is_reclaimed_reads_why_resumes_and_takes_the_months_figures_home(
    walked, newcomer
):
    said = walked.partition("Signed in as admin")[2]
    for step in (
        "It would start now, on borrowed GPUs",
        "prod-training/mine is submitted",
        'TIDEGATE {"checkpoint": true',
        "prod-training/mine by reclaim (saved)",
        "Interrupted; resumes from epoch",
        "would run",
        "Reclaimed: prod-inference / second takes back 0.09 GPU that was borrowed",
        "equal to the checkpoint",
    ):
        before, found, said = said.partition(step)
        assert found, f"not printed: {step}\n{before}"
    head, *rows = (newcomer.clone / "month.csv").read_text(encoding="utf-8-sig").splitlines()
    assert "gpu_over_quota_hours" in head
    assert any(",prod-training,prod," in row for row in rows)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_run_as_written(page, newcomer, walked):
    assert newcomer.read(page, TOKEN=newcomer.token).endswith(TYPED)


def test_the_notebook_runs_cell_by_cell(newcomer, walked, monkeypatch):
    monkeypatch.setenv("TIDEGATE_URL", newcomer.product.address)
    monkeypatch.setenv("TIDEGATE_TOKEN", newcomer.token)
    notebook = json.loads((ROOT / "docs" / "examples" / "first-steps.ipynb").read_text())
    known: dict[str, object] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), known)
    assert known["refusal"].code
