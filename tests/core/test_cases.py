"""Every case under tests/cases comes out as it says, but for the peer cases that a rule overrides."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from scheduler.core.case_files import parse_case
from scheduler.core.cases import answer_case
from scheduler.management.commands import decide

CASES = Path(__file__).parent.parent / "cases"
EXCEPTIONS = json.loads((Path(__file__).parent / "peer_exceptions.json").read_text())


def case_files(kind):
    return [pytest.param(path, id=path.stem) for path in sorted((CASES / kind).glob("*.json"))]


def read(path):
    text = path.read_text()
    return json.loads(text), answer_case(parse_case(text, name=path.stem))


@pytest.mark.parametrize("path", case_files("article"))
def test_the_articles_experiment_comes_out_as_told(path):
    case, answer = read(path)
    assert differences(case, answer) == []


@pytest.mark.parametrize("path", case_files("peer"))
def test_a_peers_case_agrees_or_is_overridden_by_a_rule(path):
    case, answer = read(path)
    found = differences(case, answer)
    if path.stem in EXCEPTIONS:
        assert found, "this case agrees: take it out of the exceptions"
    else:
        assert found == []


def test_every_exception_is_a_case():
    assert set(EXCEPTIONS) <= {path.stem for path in (CASES / "peer").glob("*.json")}


def test_every_case_is_read_by_the_command_in_the_order_of_paths(capsys):
    assert decide.main([str(CASES / "article")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["case"] for line in lines] == sorted(
        path.stem for path in (CASES / "article").glob("*.json")
    )
    assert all(line["seconds"] >= 0 for line in lines)


BROKEN = [
    # what is wrong                         the file                                   the message names
    ("no JSON at all", "not json", "file: is not JSON"),
    ("not an object", "[]", "file: must be a JSON object"),
    ("NaN", '{"nodes": NaN}', "file: NaN is not a number"),
    ("no nodes", "{}", "nodes: must be a list"),
    ("four places", {"gpus_per_pod": 0.0005}, "workloads[0].gpus_per_pod: has more than three"),
    ("negative", {"gpus_per_pod": -0.5}, "workloads[0].gpus_per_pod: must not be negative"),
    ("one and a half", {"gpus_per_pod": 1.5}, "workloads[0].gpus_per_pod: above 1 only whole"),
    ("true for a number", {"gpus_per_pod": True}, "workloads[0].gpus_per_pod: must be a number"),
    ("unknown project", {"project": "nowhere"}, "workloads[0].project: 'nowhere' is not known"),
    ("unknown type", {"type": "batch"}, "workloads[0].type: must be one of"),
    ("minimum above the pods", {"min_pods": 2}, "workloads[0].min_pods: is more than pods"),
    ("a node that is not there", {"state": "running", "placement": [{"node": "x", "devices": [0]}]},
     "workloads[0].placement[0].node: 'x' is not a node"),
    ("a device that is not there", {"state": "running", "placement": [{"node": "n", "devices": [7]}]},
     "workloads[0].placement[0].devices: n has no such devices"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_a_broken_case_says_which_field_and_the_rest_are_decided(tmp_path, capsys, given, message):
    text = given if isinstance(given, str) else json.dumps(small_case(**given))
    (tmp_path / "a-broken.json").write_text(text)
    (tmp_path / "b-whole.json").write_text(json.dumps(small_case()))
    assert decide.main([str(tmp_path)]) == 2
    broken, whole = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert broken["error"].startswith(message)
    assert whole["workloads"]["w"]["state"] == "running"


def test_a_file_that_is_not_there_is_said(tmp_path, capsys):
    assert decide.main([str(tmp_path / "gone.json")]) == 2
    assert json.loads(capsys.readouterr().out)["error"].startswith("file: can't be read")


def small_case(**workload):
    return {
        "name": "small",
        "nodes": [{"name": "n", "gpus": 1}],
        "departments": [{"name": "d", "quota": 1}],
        "projects": [{"name": "p", "department": "d", "quota": 1}],
        "workloads": [{"name": "w", "project": "p", "gpus_per_pod": 0.5, **workload}],
    }


def differences(case, answer):
    """Return what came out otherwise than the case expects, in words."""
    found = []
    for name, want in case["expect"].items():
        got = answer["workloads"][name]
        found += [
            f"{name}: {key} {got[key]!r}, not {want[key]!r}"
            for key in ("state", "running_pods")
            if key in want and got[key] != want[key]
        ]
        found += [
            f"{name}: reason {key} {(got['reason'] or {}).get(key)!r}, not {value!r}"
            for key, value in (want.get("reason") or {}).items()
            if not is_same((got["reason"] or {}).get(key), value)
        ]
    project_of = {row["name"]: row["project"] for row in case["workloads"]}
    for project, count in case.get("expect_counts", {}).get("running", {}).items():
        running = [
            name
            for name, row in answer["workloads"].items()
            if row["state"] == "running" and project_of[name] == project
        ]
        if len(running) != count:
            found.append(f"{project}: {len(running)} running, not {count}")
    return found + needless_evictions(case, answer)


def needless_evictions(case, answer):
    """Return the workloads that were interrupted whole and yet run again at the end."""
    if {"consolidation", "elastic"} & set(case.get("needs", [])):
        return []
    before = {row["name"] for row in case["workloads"] if row.get("state") == "running"}
    return [
        f"{row['victim']}: interrupted for nothing"
        for row in answer["evictions"]
        if row["whole"] and row["rule"] != "lost" and row["victim"] in before
        if case["expect"].get(row["victim"], {}).get("state") == "running"
    ]


def is_same(got, want):
    if isinstance(want, (int, float)) and not isinstance(want, bool) and got is not None:
        return Decimal(str(got)) == Decimal(str(want))
    return got == want
