"""The documentation as pages: it builds without a broken link or anchor, in both languages."""

from __future__ import annotations

import re

import pytest
from django.core.management import call_command

from dashboard.api.app import api
from dashboard.docs_site import reference
from scheduler.core.vocabulary import Reason
from scheduler.queries import glossary
from tidegate.help_text import all_help


@pytest.mark.filterwarnings("ignore")
def test_the_pages_are_built_and_strict(tmp_path):
    # Strict: a broken link, a missing anchor or a page outside of the navigation ends the build.
    call_command("docs", out=str(tmp_path))
    for language in (tmp_path, tmp_path / "zh-TW"):
        for name in ("index", "start", "concepts/experiments", "reference/endpoints"):
            assert (language / f"{name}.html").exists()
    chinese = (tmp_path / "zh-TW" / "start.html").read_text(encoding="utf-8")
    assert "保證配額" in chinese
    # Nothing is loaded from elsewhere.
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(https?://[^"]+)"', page.partition("<footer")[0]) == []


def test_every_endpoint_has_its_line_and_says_what_it_does():
    page = reference.write("reference/endpoints.md")
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method, found in methods.items():
            assert f"### `{method.upper()} {path}`" in page
            assert found.get("description") or found.get("summary"), f"{method} {path}"


def test_every_command_of_the_client_has_its_help():
    page = reference.write("reference/command-line.md")
    found = dict(all_help())
    assert {"tidegate submit", "tidegate quotas set", "tidegate wait"} <= set(found)
    for name, text in found.items():
        assert f"## `{name}`" in page
        assert len(text.splitlines()) > 3, f"{name} says nothing of itself"


def test_every_reason_has_both_sentences():
    found = {each.code: each for each in glossary.list_reasons()}
    assert set(found) == {reason.value for reason in Reason}
    assert [code for code, each in found.items() if not each.why or not each.runs_when] == []


def test_every_event_has_a_sentence_without_gaps():
    said = {each.code: each.text for each in glossary.list_events()}
    assert [code for code, text in said.items() if not text or "?" in text] == []
    assert "{" not in "".join(said.values())


def test_every_role_and_refusal_is_listed():
    for page in ("reference/roles.md", "reference/refusals.md", "reference/events.md"):
        text = reference.write(page)
        assert text.count("\n| `") > 4
