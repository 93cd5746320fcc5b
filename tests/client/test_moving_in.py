"""Files of other systems: each of the fifty becomes what is written down, a bad one says where and why."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scheduler import models
from tests.client.test_cli import typed  # noqa: F401
from tidegate.moving import hierarchy
from tidegate.moving.found import ImportRefused, mebibytes, thousandths
from tidegate.moving.reading import read

DATA = Path(__file__).parents[1] / "data"
EXPECTED = yaml.safe_load((DATA / "moving_in.yaml").read_text())
FILES = sorted((DATA / "moving_in").iterdir())


def told(path):
    """Return what a file turns into, a script's own text left out."""
    text = path.read_text()
    try:
        found = read(text)
    except ImportRefused as refused:
        return {"refused": str(refused)}
    left_out = {"left_out": [note.field for note in found.left_out]}
    assert all(note.why for note in found.left_out)
    assert all(note.becomes for note in found.carried)
    if found.units:
        return {"units": found.units, **left_out}
    submissions = [
        {
            **each,
            "command": "the script" if each["command"] == ["bash", "-c", text] else each["command"],
        }
        for each in found.submissions
    ]
    return {"submissions": submissions, **left_out}


def test_there_are_fifty():
    assert (len(FILES), sorted(EXPECTED)) == (50, [path.name for path in FILES])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_becomes_what_is_written_down(path):
    assert told(path) == EXPECTED[path.name]


def test_a_quota_file_of_queues_is_one_tree():
    found = read((DATA / "moving_in" / "quotas-kai-01.yaml").read_text())
    [department] = yaml.safe_load(hierarchy.quota_file(found, pool="main"))["pools"]["main"]
    assert (department["department"], department["guarantee"]) == ("moved-research", "8")
    assert [each["project"] for each in department["projects"]] == ["moved-vision"]


def test_amounts_are_never_less_than_asked():
    assert [mebibytes(each, of="m") for each in ("1Gi", "1.5G", "512Mi", "1025Ki")] == [
        1024, 1536, 512, 2,
    ]  # fmt: skip
    assert [thousandths(each, of="c") for each in ("2", "0.5", "250m", "1.500")] == [
        2000, 500, 250, 1500,
    ]  # fmt: skip
    for text in ("-1", "0.0001", "many", "1e3"):
        with pytest.raises(ImportRefused):
            thousandths(text, of="c")


@pytest.mark.django_db(transaction=True)
def test_work_is_previewed_and_submitted_whole(typed):  # noqa: F811
    file = DATA / "moving_in" / "k8s-14-several.yaml"
    # When it is only looked at, then nothing is there
    code, said, _ = typed(f"import {file} --preview")
    assert (code, "metadata.name first -> name: first" in said) == (0, True)
    assert not models.Workload.objects.filter(name="first").exists()
    # And submitted, all of it is
    code, said, _ = typed(f"import {file} -y")
    assert (code, said.count("is submitted")) == (0, 2)
    # And again it is refused whole, since the names are taken
    code, _, complained = typed(f"import {file} -y")
    assert (code, "(name_taken)" in complained) == (1, True)
    assert models.Workload.objects.filter(name__in=("first", "second")).count() == 2


@pytest.mark.django_db(transaction=True)
def test_queues_become_departments_and_projects(typed):  # noqa: F811
    file = DATA / "moving_in" / "quotas-kai-01.yaml"
    code, said, _ = typed(f"import {file} -y")
    assert (code, "makes the project moved-vision" in said) == (0, True)
    row = models.ProjectQuota.objects.get(project__name="moved-vision")
    assert (row.quota_mgpu, row.over_quota) == (5_000, False)
    # And a bad file does nothing and says why
    code, _, complained = typed(f"import {file.with_name('quotas-kai-03-deep.yaml')} -y")
    assert (code, "deeper" in complained) == (1, True)
    assert not models.Department.objects.filter(name="a").exists()
