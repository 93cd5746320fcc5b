"""Emergency controls in the tables: the tick obeys them, the log has them, those concerned are told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from scheduler import models
from scheduler.core.emergency import ControlKind
from scheduler.core.vocabulary import Kind
from scheduler.operations import emergency, workloads
from scheduler.operations.authority import SYSTEM
from scheduler.operations.refused import NotFound, Refused, StateRefused
from scheduler.queries.emergency import list_controls
from scheduler.queries.reasons import why_waiting
from scheduler.queries.visibility import Visibility
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


def order(kind=ControlKind.PAUSE, *, now=START, last=HOUR, **scope):
    values = {"kind": kind, "reason": "a fire in the hall", "until": now + last}
    return emergency.Order(**{**values, **scope})


def put(given, now=START):
    return emergency.set_control(order=given, authority=SYSTEM, now=now)


def test_a_pause_of_the_cluster_keeps_new_work_and_leaves_what_runs(ticker):
    # Given a service and a training that run
    place = places.article()
    place.submit("chat", of="dev-chat", gpu="0.20", kind=Kind.INFERENCE, command=["fake"])
    place.submit("train-1", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    assert set(place.phases().values()) == {"running"}
    # When starts are paused and more comes
    put(order(now=ticker.clock(), last=timedelta(seconds=60)), now=ticker.clock())
    place.submit("train-2", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    # Then what runs goes on, and what came waits with the reason and the instant
    assert place.phases() == {"chat": "running", "train-1": "running", "train-2": "pending"}
    waiting = place.fresh("train-2")
    assert waiting.reason_code == "StartsPaused"
    told = why_waiting(code=waiting.reason_code, numbers=waiting.reason, queue="")
    assert "paused in the whole cluster" in told.text
    assert "Runs in its turn after" in told.text
    # When its time is over, then it starts by itself, and the control is closed and said to be
    ticker.settle(seconds=40)
    assert place.phase("train-2") == "running"
    control = models.EmergencyControl.objects.get()
    assert (control.ended_at, control.ended_by) == (control.until, "")
    assert not models.Cluster.objects.one().has_controls
    codes = models.Announcement.objects.order_by("id").values_list("code", flat=True)
    assert list(codes) == ["emergency_set", "emergency_ended"]


def test_a_service_in_use_scales_and_one_that_is_new_waits(ticker):
    # Given a service in use, and starts that are paused
    place = places.article()
    chat = place.submit("chat", of="dev-chat", gpu="0.10", kind=Kind.INFERENCE, command=["fake"])
    ticker.settle()
    put(order(now=ticker.clock()), now=ticker.clock())
    # When it wants one more replica and another service comes
    models.Workload.objects.filter(pk=chat.pk).update(max_replicas=2, desired_replicas=2)
    place.submit("embed", of="dev-embed", gpu="0.10", kind=Kind.INFERENCE, command=["fake"])
    ticker.settle()
    # Then the one in use gets it, and the new one waits
    assert models.Replica.objects.filter(workload=chat, phase="running").count() == 2
    assert place.phase("embed") == "pending"


def test_a_pause_of_a_department_is_about_that_department(ticker):
    place = places.article()
    put(order(department_id=place.departments["dev-test"].pk))
    place.submit("mine", of="unit-a", gpu="0.09", command=["fake"])
    place.submit("theirs", of="prod-inference", gpu="0.09", command=["fake"])
    ticker.settle()
    assert place.phases() == {"mine": "pending", "theirs": "running"}
    assert place.fresh("mine").reason["level"] == "department"


def test_a_freeze_lets_a_guarantee_wait_and_its_end_lets_it_be_met(ticker):
    # Given a borrower on all of the card that its department may hold, and a freeze
    place = places.article()
    for number in range(8):
        place.submit(f"train-{number}", of="unit-a", gpu="0.09", command=["fake"])
    ticker.settle()
    borrowing = set(place.phases().values())
    freeze = put(order(ControlKind.FREEZE, now=ticker.clock()), now=ticker.clock())
    # When another project asks for its guarantee
    place.submit("chat", of="dev-chat", gpu="0.20", kind=Kind.INFERENCE, command=["fake"])
    ticker.settle()
    # Then nobody is interrupted
    assert place.phase("chat") == "pending"
    assert not models.Decision.objects.filter(verb__in=["reclaim", "preempt"]).exists()
    assert "running" in borrowing
    # When the freeze is ended, then the guarantee is met by reclaim
    emergency.end_control(control_id=freeze.pk, authority=SYSTEM, now=ticker.clock())
    ticker.settle(ticks=6)
    assert place.phase("chat") == "running"
    assert models.Decision.objects.filter(verb="reclaim").exists()


def test_one_workload_is_held_while_its_like_start_and_is_let_go(ticker):
    place = places.article()
    held = place.submit("held", of="unit-a", gpu="0.09", command=["fake"])
    place.submit("free", of="unit-a", gpu="0.09", command=["fake"])
    control = put(order(ControlKind.HOLD, workload_id=held.pk))
    ticker.settle()
    assert place.phases() == {"held": "pending", "free": "running"}
    assert place.fresh("held").reason_code == "HeldBack"
    emergency.end_control(control_id=control.pk, authority=SYSTEM, now=ticker.clock())
    ticker.settle()
    assert place.phase("held") == "running"


def test_what_can_not_be_is_refused_at_its_field(ticker):
    place = places.article()
    work = place.submit("done", of="unit-a", gpu="0.09")
    for given, field in (
        (order("stop"), "kind"),
        (order(last=timedelta(0)), "until"),
        (order(last=emergency.MOST + HOUR), "until"),
        (emergency.Order(kind="pause", reason=" ", until=START + HOUR), "reason"),
        (order(ControlKind.HOLD), "workload_id"),
        (order(workload_id=work.pk), "workload_id"),
        (order(ControlKind.FREEZE, project_id=place.projects["unit-a"].pk), "kind"),
        (
            order(ControlKind.HOLD, workload_id=work.pk, project_id=place.projects["unit-a"].pk),
            "workload_id",
        ),
        (order(project_id=place.projects["unit-a"].pk, department_id=1), "project_id"),
    ):
        with pytest.raises(Refused) as refused:
            put(given)
        assert [each.field for each in refused.value.problems] == [field]
    with pytest.raises(NotFound):
        put(order(project_id=987_654))
    workloads.stop_workload(workload_id=work.pk, authority=SYSTEM, now=START)
    ticker.settle()
    with pytest.raises(StateRefused):
        put(order(ControlKind.HOLD, workload_id=work.pk))
    assert not models.EmergencyControl.objects.exists()


def test_a_second_one_over_the_same_scope_takes_the_place_of_the_first_and_both_are_on_record():
    first, second = put(order()), put(order(last=2 * HOUR))
    first.refresh_from_db()
    assert first.ended_at == START
    assert second.ended_at is None
    emergency.end_control(control_id=second.pk, authority=SYSTEM, now=START)
    with pytest.raises(StateRefused):
        emergency.end_control(control_id=second.pk, authority=SYSTEM, now=START)
    entries = models.AuditEntry.objects.order_by("id").values_list("action", "reason", "before")
    replaced = {"until": (START + HOUR).isoformat(), "reason": "a fire in the hall"}
    ended = {"kind": "pause", "until": (START + 2 * HOUR).isoformat()}
    assert list(entries) == [
        ("emergency.pause", "a fire in the hall", {}),
        ("emergency.pause", "a fire in the hall", replaced),
        ("emergency.end", "a fire in the hall", ended),
    ]


def test_each_reader_is_shown_what_concerns_them():
    # Given controls of the cluster, a department, and a project of another one
    place = places.article()
    put(order())
    put(order(department_id=place.departments["dev-test"].pk))
    put(order(project_id=place.projects["prod-inference"].pk))
    mine = Visibility(project_ids=frozenset({place.projects["unit-a"].pk}))
    # Then one of a project sees the cluster's and its department's, without who set them
    rows = list_controls(visible=mine, now=START)
    assert [(row.scope_kind, row.set_by) for row in rows] == [("cluster", ""), ("department", "")]
    everyone = list_controls(visible=Visibility(cluster=True), now=START)
    assert [row.scope_kind for row in everyone] == ["cluster", "department", "project"]


def test_the_command_line_sets_lists_and_ends(capsys):
    place = places.article()
    call_command("emergency", "pause", "--department", "dev-test", "--reason", "a fire")
    assert "Starts are paused in dev-test" in capsys.readouterr().out
    control = models.EmergencyControl.objects.get()
    assert control.department == place.departments["dev-test"]
    assert control.set_by == "command line"
    with pytest.raises(CommandError, match="There is no nowhere"):
        call_command("emergency", "pause", "--project", "nowhere", "--reason", "a fire")
    call_command("emergency", "end", str(control.pk))
    assert "No emergency control is in force" in capsys.readouterr().out
