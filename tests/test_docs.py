"""What the documentation says, held against what is there: links, commands, settings, files, the example."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from scheduler.core.vocabulary import Reason
from scheduler.management.commands import decide
from tests.doc_blocks import blocks_of, pages, unclassified

ROOT = Path(__file__).parent.parent
PAGES = [
    pytest.param(page, id=str(page.relative_to(ROOT)))
    for pattern in ("*.md", "docs/**/*.md", "tests/**/*.md")
    for page in sorted(ROOT.glob(pattern))
]
PACKAGES = ("access", "dashboard", "gateway", "reports", "scheduler")
#: What manage.py answers before there is Django.
WITHOUT_DJANGO = {"up", "test", "lock", "decide", "help", "join"}
#: Written when the pages are built (dashboard/docs_site/reference.py).
MADE = frozenset(
    f"{name}.md" for name in ("endpoints", "command-line", "reasons", "events", "refusals", "roles")
)
#: Pages that are there in Traditional Chinese too.
TRANSLATED = (
    "index",
    "start",
    "start/command-line",
    "concepts/index",
    "concepts/experiments",
    "guides/admin",
    "guides/department-head",
    "guides/researcher",
    "guides/ml-engineer",
    "guides/finance",
)
VARIABLE = re.compile(r"\b(?:TIDEGATE_[A-Z_]*[A-Z]|DATABASE_URL|REDIS_URL)\b")
#: Of tests and of processes between themselves, not for people to set.
INNER = re.compile(r"TIDEGATE_TEST_|TIDEGATE_CHROMIUM")


def code(*packages):
    files = [file for package in packages for file in (ROOT / package).rglob("*.py")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    inside = [link.partition("#")[0] for link in links if "://" not in link]
    missing = [
        link
        for link in inside
        if link
        and not (page.parent / link).exists()
        and not (Path(link).parent.name == "reference" and Path(link).name in MADE)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_there(page):
    text = page.read_text(encoding="utf-8")
    said = set(re.findall(r"manage\.py\s+([a-z_]+)", text))
    assert said - set(get_commands()) - WITHOUT_DJANGO == set()


@pytest.mark.parametrize("page", PAGES)
def test_variables_are_read_by_the_code(page):
    said = set(VARIABLE.findall(page.read_text(encoding="utf-8")))
    known = set(VARIABLE.findall(code(*PACKAGES, "client")))
    assert said - known == set()


def test_every_variable_that_the_settings_read_is_documented():
    read = set(VARIABLE.findall((ROOT / "dashboard" / "settings.py").read_text(encoding="utf-8")))
    read |= set(VARIABLE.findall(code("dashboard/launch")))
    documented = set(VARIABLE.findall((ROOT / "docs" / "settings.md").read_text(encoding="utf-8")))
    missing = {name for name in read if not INNER.match(name)} - documented
    assert missing == set()


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in pages()])
def test_every_block_says_what_it_is(page):
    # Commands (```sh) are run by tests/test_doc_commands.py, unless <!-- not run: WHY --> is above.
    assert unclassified(page) == []


def test_python_that_is_shown_can_be_read():
    shown = [block for page in pages() for block in blocks_of(page) if block.language == "python"]
    assert shown
    broken = []
    for block in shown:
        try:
            compile(block.text, str(block.page), "exec")
        except SyntaxError as error:
            broken.append(f"{block.page.relative_to(ROOT)}:{block.line}: {error}")
    assert broken == []


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    docs = ROOT / "docs"
    names = [page.relative_to(docs).as_posix() for page in sorted(docs.rglob("*.md"))]
    missing = [name for name in names if not name.endswith(".zh-TW.md") and name not in navigation]
    assert missing == []  # add each below "nav:" in mkdocs.yml


@pytest.mark.parametrize("name", TRANSLATED)
def test_translated_pages_have_the_commands_and_parts_of_the_english(name):
    english, chinese = ROOT / "docs" / f"{name}.md", ROOT / "docs" / f"{name}.zh-TW.md"
    assert [block.text for block in blocks_of(chinese) if block.language == "sh"] == [
        block.text for block in blocks_of(english) if block.language == "sh"
    ]
    shapes = [_shape(page.read_text(encoding="utf-8")) for page in (english, chinese)]
    assert shapes[0] == shapes[1]


def _shape(text):
    """Return the headings, rows of tables, points of lists and links of a page, by their number."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    return (
        re.findall(r"^#+", text, re.M),
        len(re.findall(r"^\|", text, re.M)),
        len(re.findall(r"^(?:\* |\d+\. )", text, re.M)),
        sorted(re.findall(r"\]\(([^)]+)\)", text)),
    )


def test_every_reason_to_wait_is_in_the_rules():
    rules = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert [reason.value for reason in Reason if f"| `{reason.value}` |" not in rules] == []


def test_files_that_the_architecture_names_are_there():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    said = re.findall(r"`([a-z_/]+(?:\.py|\.js|\.toml|/))`", text)
    roots = [ROOT, ROOT / "scheduler"]
    names = {file.name for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    missing = [
        name
        for name in said
        if name not in names and not any((top / name).exists() for top in roots)
    ]
    assert said
    assert missing == []


def test_the_architecture_names_every_module_of_the_core():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    modules = sorted(file.stem for file in (ROOT / "scheduler" / "core").glob("[a-z]*.py"))
    assert [module for module in modules if f"`{module}`" not in text] == []


def shown(kind, file):
    """Return the JSON that follows the marker of ``kind`` for ``file`` in docs/decide.md."""
    text = (ROOT / "docs" / "decide.md").read_text(encoding="utf-8")
    _, _, rest = text.partition(f"<!-- {kind}: {file} -->\n```json\n")
    return rest.partition("\n```")[0]


def test_the_example_of_decide_is_the_file_and_comes_out_as_shown(capsys):
    file = "docs/examples/guarantee-comes-back.json"
    assert shown("shown", file) == (ROOT / file).read_text(encoding="utf-8").rstrip()
    assert decide.main([str(ROOT / file)]) == 0
    answer = json.loads(capsys.readouterr().out)
    answer.pop("seconds")
    assert answer == json.loads(shown("answer", file))
