"""Verification 1: a researcher of one project experiments freely, sees nothing else, can not serve."""

from __future__ import annotations

import re
import shlex

from scheduler.core.vocabulary import Phase
from scheduler.management.verify import pages
from scheduler.management.verify.layout import article_units, gpus
from scheduler.management.verify.pages import Browser
from scheduler.management.verify.readers import settle
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import Stage
from scheduler.operations import serve_requests
from scheduler.operations.authority import SYSTEM
from scheduler.operations.demonstration_data import service, training, workspace
from scheduler.queries import serve_requests as request_queries
from scheduler.queries import workloads as workload_queries
from scheduler.queries.visibility import Visibility

NUMBER = "1"
TITLE = "A researcher in one project: free to experiment, other projects do not exist, no serving"
OWN, FOREIGN = "unit-a", "unit-b"
MISSING_ID = 2**53 - 1

units = article_units


def carry_out(stage: Stage) -> None:
    """Sign a researcher of unit-a in, look around, submit work, try to serve, and ask to."""
    layout, sheet = stage.layout, stage.sheet
    stage.submit_training("foreign", project=FOREIGN, mgpu=layout.training_mgpu)
    stage.wait_for_processes(lambda found: found.of("foreign") is not None)
    sheet.given(
        say(
            "{devices} GPU in seven projects; a training of {foreign} runs; a user with "
            "the role of a researcher in {own} and no other",
            devices=gpus(layout.devices * 1000),
            foreign=FOREIGN,
            own=OWN,
        )
    )
    rule = {"role": "researcher", "project_id": stage.scene.projects[OWN]}
    name = f"{pages.USER_PREFIX}{stage.scene.run}-r"
    with pages.signed_in_as(url=stage.url, name=name, rules=[rule]) as browser:
        _looks_around(stage, browser)
        _quota_is_view_only(stage, browser)
        _experiments(stage, browser)
        _can_not_serve(stage, browser)
        _asks_to_serve(stage, browser)


def _looks_around(stage: Stage, browser: Browser) -> None:
    sheet, scene = stage.sheet, stage.scene
    sheet.when("it opens the pages that there are")
    others = [scene.called(name) for name in scene.projects if name != OWN]
    told = []
    for page in ("overview", "workloads", "quotas", "nodes", "decisions", "quota_editor", "idle"):
        text = browser.read(page, pool=scene.pool_name).text
        told += [f"{name} on {page}" for name in (*others, "foreign") if name in text]
    sheet.check(
        expected="no other project and none of its work is named",
        seen=", ".join(told) or "no other project and none of its work is named",
        where="page /, /workloads, /quotas, /nodes, /decisions, /manage/quotas, /idle",
    )
    own = scene.called(OWN) in browser.read("quotas", pool=scene.pool_name).text
    sheet.check(expected="its own project is shown", seen=_shown(own), where="page /quotas")
    foreign = browser.read("workload", workload_id=scene.workloads["foreign"])
    missing = browser.read("workload", workload_id=MISSING_ID)
    same = foreign.text == missing.text
    sheet.check(
        expected="404 for both, and the same words",
        seen=say(
            "{status}, and {same}",
            status=_both(foreign.status_code, missing.status_code),
            same="the same words" if same else "other words",
        ),
        where="page /workloads/<a foreign id> and /workloads/<an id that is none>",
    )


def _quota_is_view_only(stage: Stage, browser: Browser) -> None:
    stage.sheet.when("it opens the quotas of its project")
    text = browser.read("quota_editor", pool=stage.scene.pool_name).text
    fields = len(re.findall(r'name="(?:project|department)-\d+-quota"', text))
    said = "View only" if "View only" in text else "nothing"
    stage.sheet.check(
        expected="View only, 0 fields to change",
        seen=say("{said}, {fields} fields to change", said=said, fields=fields),
        where="page /manage/quotas",
    )


def _experiments(stage: Stage, browser: Browser) -> None:
    scene, sheet = stage.scene, stage.sheet
    for kind, command in (
        ("training", training(epoch_s="0.5", seed=7)),
        ("workspace", workspace()),
    ):
        sheet.when(say("it submits a {kind} with the form", kind=kind))
        answer = browser.send(
            "workload_new", _form(stage, kind, kind, command), pool=scene.pool_name
        )
        workload_id = _find(stage, kind)
        phase = _settled(stage, workload_id)
        sheet.check(
            expected=say("{kind} is accepted and running", kind=kind),
            seen=say(
                "{kind} is {accepted} and {phase}",
                kind=kind,
                accepted=_accepted(answer.status_code, workload_id),
                phase=phase,
            ),
            where="page /workloads/new and the pages of the work",
        )


def _can_not_serve(stage: Stage, browser: Browser) -> None:
    scene, sheet = stage.scene, stage.sheet
    sheet.when("it opens the form for new work")
    offered = 'value="inference"' in browser.read("workload_new", pool=scene.pool_name).text
    sheet.check(
        expected="inference is not offered",
        seen="inference is offered" if offered else "inference is not offered",
        where="page /workloads/new",
    )
    sheet.when("it sends the form of a service all the same")
    form = _form(stage, "inference", "sneaky", service(model="sneaky"))
    answer = browser.send("workload_new", form, pool=scene.pool_name)
    way_out = "Send a request to serve" in answer.text
    sheet.check(
        expected="403, with the way out; nothing is created",
        seen=say(
            "{status_code}, {way_out} the way out; {find} is created",
            status_code=answer.status_code,
            way_out="with" if way_out else "without",
            find="nothing" if _find(stage, "sneaky") is None else "it",
        ),
        where="page /workloads/new",
    )


def _asks_to_serve(stage: Stage, browser: Browser) -> None:
    scene, sheet = stage.scene, stage.sheet
    sheet.when("it asks to serve, and an admin approves")
    form = _form(stage, "inference", "asked", service(model="asked"))
    browser.send("serve_request_new", {**form, "comment": "verification"}, pool=scene.pool_name)
    rows = request_queries.list_requests(visible=_own(stage))
    asked = [row.name for row in rows if row.open]
    sheet.check(
        expected="asked waits for a decision",
        seen=say("{names} waits for a decision", names=", ".join(asked)) if asked else "nothing",
        where="the list of requests",
    )
    for row in rows:
        serve_requests.approve_request(
            request_id=row.id, answer="verified", authority=SYSTEM, now=scene.now()
        )
    phase = _settled(stage, _find(stage, "asked"))
    sheet.check(
        expected="the service was created and running",
        seen=say(
            "the service was {find} and {phase}",
            find="created" if _find(stage, "asked") else "not created",
            phase=phase,
        ),
        where="page of the service",
    )


def _form(stage: Stage, kind: str, name: str, command: tuple[str, ...]) -> dict[str, str]:
    return {
        "project": str(stage.scene.projects[OWN]),
        "name": name,
        "kind": kind,
        "gpu": gpus(max(1, stage.layout.training_mgpu // 3)),
        "min_replicas": "1",
        "max_replicas": "1",
        "metric": "",
        "threshold": "2",
        "priority": "40",
        "preemptible": "yes",
        "command": shlex.join(command),
        "grace_s": "5",
    }


def _own(stage: Stage) -> Visibility:
    return Visibility(project_ids=frozenset({stage.scene.projects[OWN]}), scratch=True)


def _find(stage: Stage, name: str) -> int | None:
    page = workload_queries.list_workloads(
        visible=_own(stage),
        pool_name=stage.scene.pool_name,
        wanted=workload_queries.WorkloadFilter(),
    )
    return next((row.id for row in page.rows if row.name == name), None)


def _settled(stage: Stage, workload_id: int | None) -> str:
    """Return the word for the phase once it runs, or as it was last."""
    if workload_id is None:
        return "not there"

    def phase() -> str:
        found = workload_queries.read_workload(visible=_own(stage), workload_id=workload_id)
        return found.row.phase if found else "gone"

    last = settle(phase, until=lambda seen: seen == Phase.RUNNING, within_s=stage.patience_s)
    return "running" if last == Phase.RUNNING else str(last)


def _accepted(status: int, workload_id: int | None) -> str:
    return (
        "accepted"
        if status == 200 and workload_id is not None
        else say("answered {status}", status=status)
    )


def _both(first: int, second: int) -> str:
    return (
        say("{first} for both", first=first)
        if first == second
        else say("{first} and {second}", first=first, second=second)
    )


def _shown(own: bool) -> str:  # noqa: FBT001
    return "its own project is shown" if own else "its own project is not shown"
