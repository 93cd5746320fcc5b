"""Runs of verifications: asked for once at a time, begun, cut short, kept, and read in both languages."""

from __future__ import annotations

import ast
import re
import subprocess
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone, translation

from access.models import AccessRule, User
from access.roles import Role
from scheduler import models
from scheduler.core.vocabulary import Phase
from scheduler.host import lock
from scheduler.management.verify import registry
from scheduler.management.verify.checks import Check
from scheduler.management.verify.recorder import Recorder
from scheduler.management.verify.said import say, to_json
from scheduler.operations import verifications as operations
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import StateRefused
from scheduler.operations.verifications import Line
from scheduler.queries import verifications as queries
from scheduler.tick import verifications as tending
from tests.dashboard.test_words import catalogue
from tests.product import ROOT

pytestmark = pytest.mark.django_db


@pytest.fixture
def spawned(monkeypatch):
    """What would be begun as a process."""
    begun = []
    monkeypatch.setattr(tending, "_spawn", lambda *flags, **_: begun.append(flags))
    return begun


def ask(*numbers):
    return operations.request_run(
        numbers=[(number, f"title of {number}") for number in numbers],
        layout="card",
        url="",
        authority=SYSTEM,
        now=timezone.now(),
    )


def status_of(run):
    return models.VerificationRun.objects.get(pk=run.pk).status


def test_one_run_at_a_time(db):
    ask("3")
    with pytest.raises(StateRefused, match="Another run is under way"):
        ask("5")
    assert models.VerificationRun.objects.count() == 1


def test_a_waiting_run_is_begun_once_and_again_where_its_process_never_came(spawned):
    run = ask("3")
    now = timezone.now()
    tending.tend(now=now)
    tending.tend(now=now + timedelta(seconds=15))
    assert spawned == [("--run", str(run.pk))]
    tending.tend(now=now + timedelta(seconds=61))
    assert len(spawned) == 2


def test_a_run_whose_process_is_gone_is_cut_short_and_its_tree_removed(spawned):
    # Given a run that is under way, with its scratch pool
    run = ask("3", "5")
    operations.begin_run(run_id=run.pk, now=timezone.now())
    operations.begin_result(run_id=run.pk, position=0, now=timezone.now())
    models.NodePool.objects.create(name="verify-ab12", scratch=True)
    # When its process has the lock, then nothing is done
    with lock.hold(tending.lock_file()):
        tending.tend(now=timezone.now())
    assert (status_of(run), spawned) == ("running", [])
    # When no process has it any more, then the run is marked and the tree is removed
    tending.tend(now=timezone.now())
    assert status_of(run) == "cut_short"
    assert [r.status for r in queries.read_run(run_id=run.pk).results] == ["cut_short", "waiting"]
    assert spawned == [("--clear",)]
    # And another may be asked for
    assert ask("3").status == "queued"


def test_one_process_at_a_time_clears_also_while_it_still_starts_up(monkeypatch):
    # Given what a killed run left, and a process that clears it and has got no further than its start
    models.NodePool.objects.create(name="verify-ab12", scratch=True)
    begun = []

    def begin(*flags, inherited):
        begun.append(subprocess.Popen(["sleep", "600"], pass_fds=inherited))

    monkeypatch.setattr(tending, "_spawn", begin)
    tending.tend(now=timezone.now())

    # When the tick comes by again, then there is no second one before the first has ended
    tending.tend(now=timezone.now())
    assert len(begun) == 1
    begun[0].kill()
    begun[0].wait()
    tending.tend(now=timezone.now())
    assert len(begun) == 2
    begun[1].kill()
    begun[1].wait()


def test_a_run_is_cancelled_before_it_begins_and_while_it_goes_on(db):
    first = ask("3")
    operations.cancel_run(run_id=first.pk, authority=SYSTEM, now=timezone.now())
    assert status_of(first) == "cancelled"
    assert not operations.begin_run(run_id=first.pk, now=timezone.now())
    second = ask("3")
    operations.begin_run(run_id=second.pk, now=timezone.now())
    operations.cancel_run(run_id=second.pk, authority=SYSTEM, now=timezone.now())
    assert operations.is_cancelled(run_id=second.pk)
    assert status_of(second) == "running"
    actions = models.AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == ["verification.start", "verification.cancel"] * 2


@pytest.mark.django_db(transaction=True)
def test_what_is_said_is_kept_in_its_order_and_read_in_either_language(db):
    # Given a run that is written down
    run = ask("3")
    operations.begin_run(run_id=run.pk, now=timezone.now())
    with Recorder(run_id=run.pk) as recorder:
        recorder.begin(0)
        recorder.given(
            say("a service (150) and a training (40) of {one} each are submitted", one="0.12")
        )
        recorder.when("the second service is deleted")
        recorder.check(
            Check(
                given="",
                when="",
                expected=say("running: {names}", names="service-1"),
                seen=say("running: {names}", names="none"),
                where=say("{place} and HTTP to the process", place="process table"),
                passed=False,
            )
        )
    # When its lines are read
    with translation.override("zh-hant"):
        rows = queries.list_lines(run_id=run.pk)
    # Then they stand as they came, in the reader's language, places included
    assert [row.kind for row in rows] == ["given", "when", "check"]
    assert rows[0].text == "提交一項服務（150）與一個訓練（40），各 0.12"
    assert rows[2].expected == "執行中：service-1"
    assert rows[2].where == "行程表 與對該行程的 HTTP 請求"
    assert not rows[2].passed
    with translation.override("en"):
        rows = queries.list_lines(run_id=run.pk, after_id=rows[1].id)
    assert [row.where for row in rows] == ["process table and HTTP to the process"]


def test_output_of_older_runs_is_forgotten_and_checks_stay(db):
    run = ask("3")
    operations.begin_run(run_id=run.pk, now=timezone.now())
    result = operations.begin_result(run_id=run.pk, position=0, now=timezone.now())
    kinds = models.VerificationLine.Kind
    lines = [
        Line(at=timezone.now(), kind=kinds.LOG, body={"from": "a-1", "text": "epoch 1"}),
        Line(at=timezone.now(), kind=kinds.WHEN, body={"text": "x"}),
    ]
    operations.add_lines(result_id=result, lines=lines)
    operations.end_run(run_id=run.pk, status="passed", now=timezone.now())
    for _ in range(operations.RUNS_WITH_OUTPUT):
        operations.end_run(run_id=ask("3").pk, status="passed", now=timezone.now())
    assert [row.kind for row in queries.list_lines(run_id=run.pk)] == ["when"]


# --- Words ----------------------------------------------------------------------------------------

#: Texts of the modules that nobody reads on a page: what is sent to models and commands.
NOT_SAID = {
    "Tell me about the tide.",
    "received SIGTERM",
    "equal to the checkpoint",
    "scale to zero",
    "Send a request to serve",
}
FOLDER = ROOT / "scheduler" / "management" / "verify"


def sentences():
    """Return all texts with words in them that the verifications hold, docstrings left out."""
    for path in sorted([*FOLDER.glob("v*.py"), FOLDER / "given.py", FOLDER / "scene.py"]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                first = node.body[0]
                if isinstance(first, ast.Expr):
                    inside.add(id(first.value))
            if isinstance(node, ast.JoinedStr | ast.Raise):
                inside |= {id(part) for part in ast.walk(node)}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and id(node) not in inside and re.search(r"[a-z]{2,} |: \{", node.value):
                yield path.name, node.value


def test_everything_that_a_verification_says_is_in_both_languages():
    known = set(catalogue("django")._catalog)
    missing = [(name, text) for name, text in sentences() if text not in known | NOT_SAID]
    assert missing == []


def test_every_title_is_in_both_languages():
    known = set(catalogue("django")._catalog)
    assert {module.TITLE for module in registry.VERIFICATIONS.values()} <= known


def test_a_sentence_equals_its_text_and_keeps_its_places():
    said = say("{name} ran and has ended", name=say("{n} of them", n=3))
    assert said == "3 of them ran and has ended"
    assert to_json(said) == {
        "t": "{name} ran and has ended",
        "p": {"name": {"t": "{n} of them", "p": {"n": "3"}}},
    }
    assert to_json(Phase.RUNNING) == "running"


# --- The pages ------------------------------------------------------------------------------------


@pytest.fixture
def admin(client):
    client.force_login(User.objects.create_superuser("admin", password="admin-of-tests"))
    return client


def test_an_admin_starts_a_run_and_others_have_no_such_page(client, admin, spawned):
    # When the admin chooses two
    answer = admin.post(reverse("proof"), {"number": ["5", "3"], "layout": "server"})
    # Then a run of these stands there, in the order of the list
    run = models.VerificationRun.objects.get()
    assert answer.url == reverse("proof_run", args=[run.pk])
    assert (run.numbers, run.layout, run.door) == (["3", "5"], "server", "page")
    # And a second is refused in words
    again = admin.post(reverse("proof"), {"number": ["3"], "layout": "card"}, follow=True)
    assert "Another run is under way" in again.content.decode()
    # And a viewer of the whole cluster has no such page
    viewer = User.objects.create_user("viewer", password="someone-of-tests")
    AccessRule.objects.create(user=viewer, role=Role.VIEWER, cluster=True)
    client.force_login(viewer)
    for path in (reverse("proof"), reverse("proof_run", args=[run.pk])):
        assert client.get(path).status_code == 404


def test_nothing_chosen_is_said(admin):
    answer = admin.post(reverse("proof"), {"layout": "card"}, follow=True)
    assert "Choose at least one." in answer.content.decode()
    for fields, said in (
        (
            {"number": ["3"], "layout": "moon"},
            "There is no moon to run on. Choose one of these: card",
        ),
        (
            {"number": ["3", "99"], "layout": "card"},
            "There is no verification 99. Choose of these: 1",
        ),
    ):
        assert said in admin.post(reverse("proof"), fields, follow=True).content.decode()


def finished_run():
    run = ask("3")
    operations.begin_run(run_id=run.pk, now=timezone.now())
    result = operations.begin_result(run_id=run.pk, position=0, now=timezone.now())
    kinds = models.VerificationLine.Kind
    body = {"given": "", "when": "", "expected": "both run", "seen": "both run", "passed": True}
    body["where"] = "process table"
    lines = [
        Line(at=timezone.now(), kind=kinds.GIVEN, body={"text": "limit equal to it"}),
        Line(at=timezone.now(), kind=kinds.CHECK, body=body),
        Line(at=timezone.now(), kind=kinds.LOG, body={"from": "a-1", "text": "<b>epoch 1</b>"}),
    ]
    operations.add_lines(result_id=result, lines=lines)
    operations.end_result(result_id=result, passed=True, trouble="", now=timezone.now())
    operations.end_run(run_id=run.pk, status="passed", now=timezone.now())
    return run


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ("Proof of the rules", "both run", "Passed")),
        ("zh-hant", ("規則驗證報告", "兩者都在執行", "通過")),
    ],
)
def test_the_document_is_complete_in_each_language_and_a_file_of_its_own(admin, language, words):
    run = finished_run()
    address = reverse("proof_document", args=[run.pk])
    page = admin.get(f"{address}?language={language}").content.decode()
    assert all(word in page for word in words)
    assert "epoch 1" not in page
    kept = admin.get(f"{address}?language={language}&save=1")
    assert "attachment" in kept["Content-Disposition"]
    assert "@page" in kept.content.decode()
    assert "<link" not in kept.content.decode()


def test_lines_come_after_the_last_one_that_a_page_has(admin):
    run = finished_run()
    address = reverse("proof_lines", args=[run.pk])
    first = admin.get(address).json()
    (part,) = first["lines"]
    assert "&lt;b&gt;epoch 1" in part["html"]
    assert first["open"] is False
    again = admin.get(f"{address}?after={first['last']}").json()
    assert again["lines"] == []
