"""The quota tree as CSV and YAML: back as it went, mistakes by line and field, all of it or nothing."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import models
from scheduler.core.snapshot import UNLIMITED, QueueQuota
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import Rank
from scheduler.operations import quotas
from scheduler.operations.authority import SYSTEM
from scheduler.operations.quota_import import apply_import, plan_import
from scheduler.operations.refused import QuotaConflict, QuotaRefused
from scheduler.queries.quota_files import FileLine, cells_of, parse_cells, read_file, write_file
from scheduler.queries.quota_tree import read_quota_tree
from scheduler.queries.visibility import SYSTEM as EVERYTHING
from scheduler.queries.visibility import Visibility
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db
ENDINGS = ["csv", "yaml"]


@pytest.fixture
def place():
    return places.article()


def written(ending):
    return write_file([read_quota_tree(visible=EVERYTHING)], ending=ending)


def plan(text, ending="csv", visible=EVERYTHING):
    return plan_import(text, ending=ending, visible=visible, authority=SYSTEM)


def told(found):
    return [(each.line, each.field, each.code) for each in found.mistakes]


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_reads_back_as_no_change_and_twice_as_the_same_file(place, ending):
    found = plan(written(ending), ending)
    assert (found.mistakes, found.changed, found.unchanged) == ([], [], 9)
    assert written(ending) == written(ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_of_another_state_brings_that_state_back_whole(place, ending):
    # Given the tree as a file, and changes of several rows since
    before, text = read_quota_tree(visible=EVERYTHING), written(ending)
    for name, values in (("unit-a", {"quota_mgpu": 10}), ("dev-chat", {"rank": Rank.HIGH})):
        quotas.set_project_quota(
            project_id=place.projects[name].pk,
            pool_id=place.pool.pk,
            values=QueueQuota(**values),
            authority=SYSTEM,
            now=START,
        )
    # When the file is tried, then it names those two and writes nothing; applied, all is as before
    found = plan(text, ending)
    assert [each.before.name for each in found.changed] == ["dev-chat", "unit-a"]
    assert read_quota_tree(visible=EVERYTHING).rows != before.rows
    assert apply_import(found, authority=SYSTEM, now=START, reason="back") == 2
    after = read_quota_tree(visible=EVERYTHING)
    assert [row.quota for row in after.rows] == [row.quota for row in before.rows]
    entries = models.AuditEntry.objects.filter(action="quota.set", reason="back")
    assert {entry.object_name for entry in entries} == {"dev-chat", "unit-a"}


amounts = st.integers(0, 10**7)
some = st.one_of(st.just(UNLIMITED), st.integers(0, 10**9))


@settings(max_examples=60)
@given(
    st.builds(
        QueueQuota,
        quota_mgpu=amounts,
        limit_mgpu=st.one_of(st.just(UNLIMITED_MGPU), amounts),
        over_quota=st.booleans(),
        rank=st.sampled_from([int(rank) for rank in Rank]),
        weight_milli=st.integers(0, 10**6),
        cpu_quota_milli=some,
        cpu_limit_milli=some,
        memory_quota_mib=some,
        memory_limit_mib=some,
    )
)
def test_every_value_survives_as_text(quota):
    line = FileLine(line=1, pool="p", department="d", project="", cells=cells_of(quota))
    assert parse_cells(line, QueueQuota()) == (quota, [])


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "name", ["=1+1", "@lab", "'quoted", '"; DROP', "+a, b", "組 甲", "-5", "on: [x"]
)
def test_names_that_look_like_formulas_are_guarded_and_come_back(ending, name):
    place = places.card().department("d", quota="1").project(name, of="d", quota="0.50")
    text = written(ending)
    if ending == "csv":
        rows = list(csv.reader(io.StringIO(text)))
        assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    lines, mistakes = read_file(text, ending=ending)
    assert mistakes == []
    assert lines[1].project == name
    assert plan(text, ending).mistakes == []
    assert place.projects[name].name == name


def edited(old, new):
    text = written("csv")
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("unit-a,0.09", "unit-a,0.0999", (8, "guarantee", "bad_gpus")),
        ("unit-a,0.09", "unit-a,-1", (8, "guarantee", "bad_gpus")),
        ("unit-a,0.09,", "unit-a,0.09,0.05", (8, "limit", "limit_below_quota")),
        ("unit-a,0.09,,yes", "unit-a,0.09,,maybe", (8, "over_quota", "bad_yes_no")),
        ("unit-a,0.09,,yes,medium-low", "unit-a,0.09,,yes,top", (8, "rank", "bad_rank")),
        ("unit-a", "unit-q", (8, "project", "unknown_project")),
        ("dev-test,unit-a", "dev-tset,unit-a", (8, "department", "unknown_department")),
        ("default,dev-test,unit-a", "dfault,dev-test,unit-a", (8, "pool", "unknown_pool")),
        ("unit-b", "unit-a", (9, "project", "row_twice")),
        ("guarantee", "quota", (1, "quota", "unknown_field")),
        ("project,", "projects,", (1, "project", "missing_field")),
        ("unit-a,0.09", "unit-a,0.09,9", (8, "", "wrong_cell_count")),
    ],
)
def test_a_mistake_names_its_line_and_field_and_nothing_is_changed(place, old, new, mistake):
    before = models.AuditEntry.objects.count()
    # Given the mistake beside a row that could be changed
    text = edited(old, new).replace("unit-c,0.18", "unit-c,0.17", 1)
    found = plan(text)
    assert mistake in told(found)
    with pytest.raises(QuotaRefused):
        apply_import(found, authority=SYSTEM, now=START)
    assert models.AuditEntry.objects.count() == before
    assert models.ProjectQuota.objects.get(project=place.projects["unit-c"]).quota_mgpu == 180


def test_an_unknown_name_is_answered_with_those_that_are_near(place):
    found = plan(edited("dev-chat", "dev-caht"))
    assert found.mistakes[0].params["near"] == ("dev-chat",)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("pools: [", (1, "", "not_yaml")),
        ("a: &a [1]\nb: *a\n", (2, "", "yaml_alias")),
        ("pools: 3\n", (1, "", "not_a_mapping")),
        ("pools:\n  default: 3\n", (2, "", "not_a_list")),
        ("pools:\n  default:\n  - guarantee: 1\n", (3, "department", "missing_field")),
        (
            "pools:\n  default:\n  - department: prod\n    guarante: 1\n",
            (4, "guarante", "unknown_field"),
        ),
        (
            "pools:\n  default:\n  - department: prod\n    guarantee: [1]\n",
            (4, "guarantee", "not_a_value"),
        ),
        (
            "pools:\n  default:\n  - department: prod\n    projects:\n    - project: prod-x\n",
            (5, "project", "unknown_project"),
        ),
        ("", (1, "", "not_a_mapping")),
    ],
)
def test_mistakes_in_yaml_have_their_lines_too(place, text, mistake):
    assert mistake in told(plan(text, "yaml"))


def test_a_field_that_is_left_out_keeps_its_value(place):
    found = plan("pool,department,project,weight\ndefault,dev-test,unit-a,5\n")
    assert [each.after.quota.weight_milli for each in found.changed] == [5000]
    assert found.changed[0].after.quota.quota_mgpu == 90


def test_what_changed_between_trial_and_import_is_a_conflict(place):
    found = plan(edited("unit-a,0.09", "unit-a,0.08"))
    quotas.set_project_quota(
        project_id=place.projects["unit-a"].pk,
        pool_id=place.pool.pk,
        values=QueueQuota(quota_mgpu=50),
        authority=SYSTEM,
        now=START,
    )
    with pytest.raises(QuotaConflict):
        apply_import(found, authority=SYSTEM, now=START)
    assert plan(edited("unit-b,0.09", "unit-b,0.08")).digest != found.digest


def test_what_one_may_not_see_is_an_unknown_name(place):
    own = Visibility(department_ids=frozenset({place.departments["prod"].pk}))
    text = written("csv")
    found = plan(text, visible=own)
    assert {code for _line, _field, code in told(found)} == {"unknown_department"}
    assert all(not each.params["near"] for each in found.mistakes)
    seen = write_file([read_quota_tree(visible=own)], ending="csv")
    assert "dev-test" not in seen
