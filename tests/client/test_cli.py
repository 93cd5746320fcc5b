"""``tidegate`` as people type it, over HTTP to a server that runs."""

from __future__ import annotations

import contextlib
import io
import json
import re
import stat
import time

import pytest
from click.shell_completion import shell_complete
from click.testing import CliRunner

from access.models import User
from access.roles import Role
from scheduler import models
from tests.api.conftest import token_of
from tests.dashboard.conftest import person
from tests.dashboard.scene import lay_scene
from tidegate import completing, main
from tidegate.amounts import parse_gpu, replica_request, show_gpu

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def typed(live_server, tmp_path, monkeypatch, capfd):
    """Type a command as someone: exit code, what it said, what it complained of."""
    from django.utils import timezone

    lay_scene(now=timezone.now())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_URL", live_server.url)
    admin = User.objects.create_superuser("admin", password="admin-of-tests")
    monkeypatch.setenv("TIDEGATE_TOKEN", token_of(admin))

    def type_(line, stdin=""):
        runner = CliRunner()
        code = None

        def act():
            nonlocal code
            code = main.run(lambda: main.cli(line.split(), standalone_mode=False))

        with runner.isolation(input=stdin) as (out, err, _both):
            act()
            said, complained = out.getvalue().decode(), err.getvalue().decode()
        return code, said, complained

    return type_


def test_login_keeps_the_token_for_its_owner_only(typed, live_server, tmp_path, monkeypatch):
    lin = person("lin", Role.RESEARCHER, project="nlp-lab")
    secret = token_of(lin)
    # When lin signs in
    code, said, _ = typed(f"login --url {live_server.url} --token {secret}")
    assert code == 0
    assert "Signed in as lin" in said
    file = tmp_path / "tidegate" / "client.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # Then later commands are lin's
    monkeypatch.delenv("TIDEGATE_TOKEN")
    code, said, _ = typed("whoami")
    assert code == 0
    assert said.splitlines()[0] == "lin"


@pytest.fixture
def in_nepal(monkeypatch):
    """A reader in a zone that is nobody's default."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        yield
    time.tzset()


def test_submit_list_describe_stop(typed, in_nepal):
    # Given a preview says that it could never run
    code, said, _ = typed("submit -p bio-fold -n too-wide -g 9 --preview -- python train.py")
    assert code == 0
    assert said.startswith("It could never run")
    assert not models.Workload.objects.filter(name="too-wide").exists()
    # When it is submitted all the same, with a grace of its own
    code, said, _ = typed("submit -p bio-fold -n too-wide -g 9 --grace-s 5 -- python train.py -x")
    assert (code, "bio-fold/too-wide is submitted" in said) == (0, True)
    row = models.Workload.objects.get(name="too-wide")
    assert (row.devices, row.request_mgpu, row.grace_s) == (9, 1000, 5)
    assert row.command == ["python", "train.py", "-x"]
    # Then it is in the list, and says what would make it run
    code, said, _ = typed("list -p bio-fold -o json")
    assert "too-wide" in [each["name"] for each in json.loads(said)]
    code, said, _ = typed("describe bio-fold/too-wide")
    assert code == 0
    assert "would run   Ask for" in said
    assert "turn        number " in said
    # And times are the reader's
    assert re.search(r"  phase       pending since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+05:45\n", said)
    # And it can be stopped
    code, said, _ = typed("stop too-wide")
    assert (code, said) == (0, "bio-fold/too-wide is being stopped.\n")


def test_mistakes_have_their_exit_codes(typed, monkeypatch):
    code, _, told = typed("submit -p bio-fold -n Bad_Name -- true")
    assert (code, told.startswith("name: ")) == (1, True)
    code, _, told = typed("submit -p nowhere -n x -- true")
    assert (code, "There is no project nowhere" in told) == (4, True)
    code, _, told = typed("submit -p bio-fold -n x -g half -- true")
    assert (code, "no amount of GPUs" in told) == (2, True)
    assert typed("describe nothing-of-that-name")[0] == 4
    monkeypatch.setenv("TIDEGATE_TOKEN", "tgat_wrong")
    code, _, told = typed("list")
    assert (code, "tidegate login" in told) == (3, True)
    monkeypatch.setenv("TIDEGATE_URL", "http://127.0.0.1:9")
    assert typed("list")[0] == 5


def test_quotas_are_shown_set_exported_and_imported(typed, tmp_path):
    code, said, _ = typed("quotas show")
    assert (code, "bio-fold" in said) == (0, True)
    code, said, _ = typed("quotas set bio-fold --quota 5.5 --reason less -y")
    assert code == 0
    row = models.ProjectQuota.objects.get(project__name="bio-fold")
    assert row.quota_mgpu == 5_500
    # What is exported and imported again changes nothing
    _, exported, _ = typed("quotas export")
    file = tmp_path / "quotas.csv"
    file.write_text(exported)
    assert typed(f"quotas import {file}") == (0, "Nothing differs.\n", "")
    # And an edited line changes that one row
    file.write_text(exported.replace("bio-fold,5.50", "bio-fold,5.25"))
    code, said, _ = typed(f"quotas import {file} -y --reason file")
    assert code == 0
    row.refresh_from_db()
    assert row.quota_mgpu == 5_250
    # And a bad line changes none, and is named
    file.write_text(exported.replace("bio-fold,5.50", "bio-fold,much"))
    code, _, told = typed(f"quotas import {file} -y")
    assert (code, told.startswith("line ")) == (1, True)
    row.refresh_from_db()
    assert row.quota_mgpu == 5_250
    # And a YAML file of something new makes it, where that is asked for
    new = tmp_path / "new.yaml"
    new.write_text("pools: {main: [{department: Moved, guarantee: 2}]}\n")
    assert typed(f"quotas import {new} -y")[0] == 1
    code, said, _ = typed(f"quotas import {new} --make -y")
    assert (code, "makes the department Moved" in said) == (0, True)
    assert models.Department.objects.filter(name="Moved").exists()


def test_the_cluster_at_a_glance(typed):
    code, said, _ = typed("nodes -o yaml")
    assert (code, "name: h100-01" in said) == (0, True)
    code, said, _ = typed("models")
    assert (code, "llama-70b" in said) == (0, True)
    code, said, _ = typed("report --period yesterday")
    assert (code, said.split()[:2], said.splitlines()[-1].split()[0]) == (
        0,
        ["UNIT", "ALLOCATED"],
        "total",
    )
    code, said, _ = typed("top --once")
    assert (code, "h100-01" in said, "llama-70b 1.00" in said) == (0, True, True)
    assert "_TIDEGATE_COMPLETE" in typed("completion bash")[1]


def test_a_researcher_is_told_the_way_to_serve(typed, monkeypatch):
    lin = person("lin", Role.RESEARCHER, project="nlp-lab")
    monkeypatch.setenv("TIDEGATE_TOKEN", token_of(lin))
    code, _, told = typed("submit -p nlp-lab -n svc --kind inference -g 0.1 -- serve")
    assert (code, "request to serve" in told) == (1, True)
    # And other projects do not exist
    assert typed("submit -p vision-lab -n x -- true")[0] == 4


def test_amounts_are_read_and_shown_exactly():
    assert [parse_gpu(text) for text in ("0.25", "2", "0.001")] == [250, 2_000, 1]
    assert [show_gpu(mgpu) for mgpu in (250, 2_000, 1, None)] == ["0.25", "2.00", "0.001", "-"]
    assert replica_request(3_000) == {"devices": 3, "request_mgpu": 1_000}
    for text in ("-1", "0.0001", "nan", "many"):
        with pytest.raises(ValueError, match="amount"):
            parse_gpu(text)
    with pytest.raises(ValueError, match="whole"):
        replica_request(1_500)


def test_wait_ends_when_it_is_so_and_says_why_it_is_not(typed):
    typed("submit -p bio-fold -n too-wide -g 9 -- python train.py")
    code, said, _ = typed("wait too-wide --for pending")
    assert (code, said) == (0, "bio-fold/too-wide is pending.\n")
    code, _, complained = typed("wait too-wide --for running --within 0.1")
    assert code == 1
    assert "bio-fold/too-wide is pending." in complained


def test_without_a_server_it_says_how_to_sign_in(typed, monkeypatch):
    monkeypatch.delenv("TIDEGATE_URL")
    code, _, complained = typed("list")
    assert code == 3
    assert "tidegate login" in complained


def test_a_service_names_what_its_replicas_follow(typed):
    asked = "submit -p bio-fold -n qa --kind inference -g 0.1 --replicas 1-3"
    code, _, complained = typed(f"{asked} -- python serve.py")
    assert (code, "metric_needed" in complained) == (1, True)
    code, _, _ = typed(f"{asked} --metric concurrency --threshold 2 -- python serve.py")
    assert code == 0
    row = models.Workload.objects.get(name="qa")
    assert (row.min_replicas, row.max_replicas) == (1, 3)


@pytest.fixture
def offered(typed, monkeypatch):
    """Return what the shell is offered after words, as its own script asks for it."""

    monkeypatch.setattr(completing, "TIMEOUT_S", 60)

    def ask(*words):
        monkeypatch.setenv("COMP_WORDS", " ".join(("tidegate", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        output = io.TextIOWrapper(io.BytesIO())
        with contextlib.redirect_stdout(output):
            shell_complete(main.cli, {}, "tidegate", "_TIDEGATE_COMPLETE", "bash_complete")
        said = output.buffer.getvalue().decode()
        return [line.partition(",")[2] for line in said.split()]

    return ask


def test_the_shell_is_offered_the_names_that_one_may_see(offered, monkeypatch):
    # Given lin, who works in nlp-lab only
    monkeypatch.setenv(
        "TIDEGATE_TOKEN", token_of(person("lin", Role.RESEARCHER, project="nlp-lab"))
    )
    own, foreign = (
        list(models.Workload.objects.filter(project__name=name).values_list("name", flat=True))
        for name in ("nlp-lab", "bio-fold")
    )
    assert own
    assert foreign
    # Then projects and workloads are offered as far as lin sees them, as they are begun
    assert offered("submit", "-p", "") == ["nlp-lab"]
    assert offered("submit", "-p", "bio") == []
    assert offered("describe", "") == sorted(own)
    assert offered("describe", "nlp-lab/") == sorted(f"nlp-lab/{name}" for name in own)
    assert offered("quotas", "set", "nlp") == ["nlp-lab"]
    assert offered("nodes", "--pool", "") == [models.NodePool.objects.get().name]
    # And a server that does not answer offers nothing, and says nothing
    monkeypatch.setenv("TIDEGATE_URL", "http://127.0.0.1:9")
    assert offered("describe", "") == []
