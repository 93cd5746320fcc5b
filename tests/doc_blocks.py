"""The code blocks of the documentation: which are commands, which are run, and why the others are not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\s*$")
NOT_RUN = re.compile(r"^\s*<!-- not run: (?P<why>.+) -->\s*$")
ITEM = re.compile(r"^\s*([*-]|\d+\.) ")
#: Languages of blocks that are no commands. Commands are sh.
SHOWN = frozenset({"text", "json", "yaml", "python", "csv", "nginx", "ini"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. ``not_run``: why its commands are not run by a test."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""


def pages() -> list[Path]:
    """Return every page that people read."""
    patterns = ("*.md", "docs/**/*.md", "client/*.md", "deploy/**/*.md")
    return [page for pattern in patterns for page in sorted(ROOT.glob(pattern))]


def blocks_of(page: Path) -> list[Block]:
    """Return a page's fenced blocks, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    start: re.Match[str] | None = None
    begin = 0
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if start is None:
            start, begin = fence, number
            continue
        indent = len(start["indent"])
        why = NOT_RUN.match(lines[begin - 1]) if begin else None
        found.append(
            Block(
                page=page,
                line=begin + 1,
                language=start["language"],
                text="\n".join(text[indent:] for text in lines[begin + 1 : number]),
                not_run=why["why"] if why else "",
            )
        )
        start = None
    return found


def unclassified(page: Path) -> list[str]:
    """Return what is shown as code without saying what it is: no language, or by indentation only."""
    name = page.relative_to(ROOT)
    found = [
        f"{name}:{block.line}: a block of commands is ```sh, what is shown ```text, ```json and so on"
        for block in blocks_of(page)
        if block.language != "sh" and block.language not in SHOWN
    ]
    return found + [
        f"{name}:{number}: a block by indentation; use a fence with its language"
        for number in _indented(page.read_text(encoding="utf-8").splitlines())
    ]


def _indented(lines: list[str]) -> list[int]:
    found, fenced, in_item = [], False, False
    for number, line in enumerate(lines, start=1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and line.strip():
            if not line.startswith(" "):
                in_item = bool(ITEM.match(line))
            elif line.startswith("    ") and not in_item and not lines[number - 2].strip():
                found.append(number)
    return found
