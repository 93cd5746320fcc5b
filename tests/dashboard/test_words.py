"""Every sentence exists in both languages; every code has its words."""

from __future__ import annotations

import gettext
import re
from pathlib import Path

import pytest
from django.utils import translation

from dashboard import words
from scheduler.core.vocabulary import Kind, Lack, Phase, Rank, Reason
from scheduler.queries import decision_words, reasons, timeline
from scheduler.queries.phrases import plain

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "locale" / "zh_Hant" / "LC_MESSAGES"
PLACES = re.compile(r"\{(\w+)\}|%\((\w+)\)s")
NUMBERS = {
    "limit": 760,
    "quota": 90,
    "allocated": 750,
    "requested": 90,
    "free": 130,
    "largest": 60,
    "level": "department",
    "next_try_at_us": 1_764_000_000_000_000,
}

#: A string in a translation call of Python, a template or a script; what a page says is one of these.
SAID = (
    (
        re.compile(r"\b(?:_|gettext|gettext_noop)\(\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)\)"),
        ("dashboard", "scheduler/queries"),
        "*.py",
    ),
    (re.compile(r"{% translate \"([^\"]+)\"|{% translate '([^']+)'"), ("templates",), "*.html"),
)  # fmt: skip
IN_SCRIPTS = re.compile(r"\bn?gettext\(\s*\"((?:[^\"\\]|\\.)+)\"")


def catalogue(domain):
    with open(FOLDER / f"{domain}.mo", "rb") as file:
        return gettext.GNUTranslations(file)


def sentences_of(domain):
    """Return the pairs of a compiled catalogue: English and Chinese."""
    for key, value in catalogue(domain)._catalog.items():
        english = key[0] if isinstance(key, tuple) else key
        if english:
            yield english.rsplit("\x04")[-1], value


def said_in_python_and_templates():
    for pattern, folders, glob in SAID:
        for folder in folders:
            for path in (ROOT / folder).rglob(glob):
                for found in pattern.finditer(path.read_text(encoding="utf-8")):
                    text = next(part for part in found.groups() if part)
                    if text.startswith('"'):
                        text = "".join(
                            eval(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', text)
                        )
                    else:
                        text = text.replace("%", "%%")  # as the tag looks it up
                    yield path.relative_to(ROOT), text


def test_every_sentence_of_the_server_is_translated():
    known = {english for english, _chinese in sentences_of("django")}
    missing = [
        (str(path), text) for path, text in said_in_python_and_templates() if text not in known
    ]
    assert missing == []


def test_every_sentence_of_the_scripts_is_translated():
    known = {english for english, _chinese in sentences_of("djangojs")}
    missing = [
        (path.name, text)
        for path in (ROOT / "static" / "js").rglob("*.js")
        for text in IN_SCRIPTS.findall(path.read_text(encoding="utf-8"))
        if text not in known
    ]
    assert missing == []


@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_a_translation_keeps_the_places_of_its_sentence(domain):
    """Given a sentence with named places, then its translation names no other."""
    for english, chinese in sentences_of(domain):
        places = {a or b for a, b in PLACES.findall(chinese)}
        assert places <= {a or b for a, b in PLACES.findall(english)}, english


@pytest.mark.parametrize("language", ["en", "zh-hant"])
@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_says_why_and_what_would_make_it_run(reason, language):
    with translation.override(language):
        found = reasons.why_waiting(code=reason.value, numbers=NUMBERS, queue="dev-test")
    assert plain(found.why)
    assert plain(found.runs_when)
    assert found.code == reason.value


def test_over_limit_reads_as_the_article_tells_it():
    # Given dev-test's limit 0.76 and 0.75 held, when a training asks for 0.09
    found = reasons.why_waiting(code="OverLimit", numbers=NUMBERS, queue="dev-test")
    # Then the sentence has all three numbers, and the way out has the gap
    assert plain(found.why) == (
        "Over department limit: dev-test holds 0.75 of 0.76 and this asks for 0.09."
    )
    assert plain(found.runs_when) == "Runs when dev-test releases 0.08."


def test_a_reason_is_another_sentence_in_the_other_language():
    with translation.override("zh-hant"):
        found = reasons.why_waiting(code="OverLimit", numbers=NUMBERS, queue="dev-test")
    assert plain(found.why) == "超過部門上限：dev-test 上限 0.76，已持有 0.75，此項請求 0.09。"


def test_an_unknown_reason_is_an_error_and_not_an_empty_sentence():
    with pytest.raises(ValueError, match="NoSuchReason"):
        reasons.why_waiting(code="NoSuchReason", numbers={}, queue="dev-test")


def test_what_nodes_lack_is_said_for_every_code():
    numbers = {"lacks": {lack.value: index + 1 for index, lack in enumerate(Lack)}}
    said = reasons.lacks_in_words(numbers)
    assert len(said) == len(Lack)
    assert said[0].startswith(f"{len(Lack)} nodes")


@pytest.mark.parametrize("language", ["en", "zh-hant"])
def test_every_code_has_a_word(language):
    with translation.override(language):
        named = (
            [words.kind_name(kind) for kind in Kind]
            + [words.phase_name(phase) for phase in Phase]
            + [words.rank_name(rank) for rank in Rank]
            + [decision_words.verb_name(verb) for verb in decision_words.VERB_TONES]
        )
    assert all(named)


def test_every_event_that_is_recorded_has_a_sentence():
    """Given the codes that the code records, then each has a line on the timeline."""
    recorded = re.compile(
        r"_event\(\s*[\w.]+,\s*(?:[\w.]+,\s*)*\"(\w+)\"|WorkloadEvent\.objects\.create\([^)]*?code=\"(\w+)\"",
        re.S,
    )
    found = set()
    for folder in ("scheduler/tick", "scheduler/operations"):
        for path in (ROOT / folder).glob("*.py"):
            for match in recorded.finditer(path.read_text(encoding="utf-8")):
                found.add(match.group(1) or match.group(2))
    assert {"submitted", "placed", "replica_ended"} <= found
    assert found <= timeline.EVENT_CODES
