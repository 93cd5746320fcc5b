"""Gathers what the documentation is built from: docs/, made pages, and pages that lie beside manage.py."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from dashboard.docs_site import reference

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
#: Files beside manage.py that are pages too, and where.
OUTSIDE = {
    "ARCHITECTURE.md": "design/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "README.md": "project/readme.md",
    "LICENSE": "project/license.md",
}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def gather(folder: Path) -> None:
    """Write all pages into ``folder``, with links that hold there."""
    shutil.copytree(DOCS, folder, dirs_exist_ok=True)
    for page in folder.rglob("*.md"):
        place = page.relative_to(folder).as_posix()
        text = page.read_text(encoding="utf-8")
        page.write_text(_relinked(text, was=f"docs/{place}", place=place), encoding="utf-8")
    for name, place in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if not name.endswith(".md"):
            text = f"# License\n\n```text\n{text}\n```\n"
        _write(folder / place, _relinked(text, was=name, place=place))
    for place in reference.pages():
        _write(folder / place, reference.write(place))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _relinked(text: str, *, was: str, place: str) -> str:
    """Return a page with its links as seen from its new place."""
    return LINK.sub(_relink(was, place), text)


def _relink(was: str, place: str) -> Callable[[re.Match[str]], str]:
    def relink(found: re.Match[str]) -> str:
        target, sign, anchor = found[2].partition("#")
        if "://" in target or not target:
            return found[0]
        at = posixpath.normpath(posixpath.join(posixpath.dirname(was), target))
        new = OUTSIDE.get(at, at.removeprefix("docs/"))
        relative = os.path.relpath(new, posixpath.dirname(place) or ".")
        return f"{found[1]}{relative}{sign}{anchor}{found[3]}"

    return relink
