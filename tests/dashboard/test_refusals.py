"""Every refusal has its sentence in both languages, with its figures; what roles forbid is on record."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from django.urls import reverse
from django.utils import translation

from access.models import AccessRule
from access.roles import Role
from dashboard import problems
from scheduler import models
from scheduler.operations import audit
from scheduler.operations.authority import NotPermitted, hearing_refusals
from tests.dashboard.conftest import person

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("scheduler/operations", "access")
#: Their sentence is another's, in the reader's language already: Django's rules for names and passwords.
SAID_BY_DJANGO = {"bad_user", "weak_password"}
PLACES = re.compile(r"\{(\w+)\}")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


class Refusal:
    """One place in the code where something is refused: its code and the names of its figures."""

    def __init__(self, where, kind, code, params):
        self.where, self.kind, self.code, self.params = where, kind, code, params

    def __repr__(self):
        return f"{self.where}:{self.code}"


def constant(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def keys(node):
    """The names in a dict display; None where they can't be read off."""
    if node is None:
        return set()
    if isinstance(node, ast.Dict) and all(constant(key) for key in node.keys):
        return {constant(key) for key in node.keys}
    return None


def refusals():
    """Walk the operations for all that they refuse.

    A function that makes problems by parameters, such as ``_problem(field, code, message)``, is followed to
    its calls in the same file.
    """
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from refusals_of(path)


def refusals_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    makers = {}
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        arguments = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
        for call in calls_of(function, {"Problem", "NotPermitted"}):
            named = {each.arg: each.value for each in call.keywords}
            code = named.get("code")
            if isinstance(code, ast.Name) and code.id in arguments:
                makers[function.name] = (arguments, named)
    for call in calls_of(tree, {"Problem", "NotPermitted"}):
        named = {each.arg: each.value for each in call.keywords}
        where = f"{path.relative_to(ROOT)}:{call.lineno}"
        kind = name_of(call)
        for code in codes(named.get("code")):
            yield Refusal(where, kind, code, keys(named.get("params")))
    for call in calls_of(tree, set(makers)):
        arguments, inner = makers[name_of(call)]
        given = dict(zip(arguments, call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords}
        where = f"{path.relative_to(ROOT)}:{call.lineno}"
        extra = {each.arg for each in call.keywords if each.arg not in arguments}
        params = keys(inner.get("params")) if "params" in inner else set()
        for code in codes(given.get("code")):
            yield Refusal(where, "Problem", code, extra if params is None else params | extra)


def calls_of(tree, names):
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and name_of(n) in names]


def name_of(call):
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def codes(node):
    """The codes that an expression can be: a word, one of two, or one of a known few."""
    if isinstance(node, ast.IfExp):
        return [*codes(node.body), *codes(node.orelse)]
    if isinstance(node, ast.JoinedStr):
        assert ast.unparse(node) == "f'oversubscribed_{where}'", ast.unparse(node)
        return [f"oversubscribed_{where}" for where in ("pool", "projects", "department")]
    return [constant(node)] if constant(node) else []


FOUND = list(refusals())


def test_the_walk_finds_the_refusals():
    """So that a change of style does not leave the next tests with nothing."""
    assert len([each for each in FOUND if each.kind == "NotPermitted"]) >= 20
    assert len([each for each in FOUND if each.kind == "Problem"]) >= 80
    assert {"last_admin", "limit_below_quota", "bad_schedule_name", "oversubscribed_pool"} <= {
        each.code for each in FOUND
    }


def template(refusal):
    if refusal.kind == "NotPermitted":
        places = {name: f"{{{name}}}" for name in ("project", "name", "department", "scope")}
        blank = NotPermitted("", code=refusal.code, params=places)
        return problems.refusal(blank)
    return problems.template(refusal.code)


@pytest.mark.parametrize("refusal", FOUND, ids=repr)
def test_a_refusal_has_its_sentence_in_both_languages_and_the_figures_for_it(refusal):
    if refusal.code in SAID_BY_DJANGO:
        return
    with translation.override("en"):
        english = template(refusal)
    with translation.override("zh-hant"):
        chinese = template(refusal)
    assert english, f"{refusal} has no sentence in dashboard/problem_sentences.py"
    assert CHINESE.search(chinese), f"{refusal} is not translated: {chinese}"
    if refusal.params is not None:
        missing = set(PLACES.findall(english)) - refusal.params
        assert not missing, f"{refusal} gives no {missing} to its sentence"


def test_no_page_shows_a_refusal_as_it_was_raised():
    """Their English is for logs and the command line."""
    shown = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("dashboard/views", "dashboard/forms", "dashboard/admin")
        for path in (ROOT / folder).glob("*.py")
        if path.name not in {"money.py", "reports.py", "saved_reports.py"}  # reports word their own
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"str\((refused|error|refusal)\)", line)
    ]
    assert shown == []


# --- On record ------------------------------------------------------------------------------------


def project(name):
    return models.Project.objects.get(name=name)


def lines():
    return list(models.AuditEntry.objects.filter(result="refused").order_by("id"))


@pytest.fixture
def viewer(scene, client):
    user = person("vera", Role.VIEWER, project="nlp-lab")
    client.force_login(user)
    return client


@pytest.mark.django_db
def test_what_a_role_forbids_is_refused_and_on_record_without_what_was_sent(viewer):
    workload = models.Workload.objects.get(name="nlp-pre")
    viewer.post(reverse("workload_stop", args=[workload.pk]), {"secret": "harbour-lantern"})
    workload.refresh_from_db()
    assert not workload.stop_requested
    (line,) = lines()
    assert (line.actor, line.door, line.address) == ("vera", "page", "127.0.0.1")
    assert (line.action, line.reason) == ("workload_stop", "work_is_view_only")
    assert (line.object_kind, line.project_id) == ("project", project("nlp-lab").pk)
    assert "harbour-lantern" not in str(vars(line))


@pytest.mark.django_db
def test_the_log_can_not_be_flooded(viewer, monkeypatch):
    own = models.Workload.objects.filter(project=project("nlp-lab"))
    for workload in [*own, *own]:
        viewer.post(reverse("workload_stop", args=[workload.pk]))
    assert len(lines()) == 1  # the same refusal, of the same project
    monkeypatch.setattr(audit, "MOST_REFUSALS", 1)
    viewer.post(reverse("workload_delete", args=[own[0].pk]))
    assert len(lines()) == 1


@pytest.mark.django_db
def test_what_is_not_there_for_one_leaves_no_line_that_tells_of_it(viewer):
    foreign = models.Workload.objects.get(name="seg-eval")
    assert viewer.post(reverse("workload_stop", args=[foreign.pk])).status_code == 404
    assert lines() == []


@pytest.mark.django_db
def test_the_line_is_read_by_the_admins_of_its_scope_alone(viewer, client):
    workload = models.Workload.objects.get(name="nlp-pre")
    viewer.post(reverse("workload_stop", args=[workload.pk]))
    for name, expected in (("Research", 1), ("Dev and test", 0)):
        user = person(f"head-{expected}", Role.VIEWER, project="nlp-lab")
        AccessRule.objects.filter(user=user).delete()
        AccessRule.objects.create(
            user=user,
            role=Role.DEPARTMENT_ADMIN,
            department=models.Department.objects.get(name=name),
        )
        client.force_login(user)
        page = client.get(reverse("audit"), {"result": "refused"}).content.decode()
        assert ("workload_stop" in page.split("<tbody>")[-1]) is bool(expected), name


def test_only_what_is_refused_inside_is_heard():
    with hearing_refusals() as heard:
        first = NotPermitted("no", code="x")
    NotPermitted("no", code="y")
    assert heard == [first]


def test_no_text_with_nul_comes_as_far_as_a_table(client, admin, scene):
    client.force_login(admin)
    # In an address it is left out
    assert client.get("/search?q=nlp%00-lab").context["text"] == "nlp-lab"
    assert client.get("/workloads?owner=li%00n&q=%00").context["wanted"].owner == "lin"
    assert client.get("/api/v1/workloads?owner=li%00n").status_code == 200
    # In a form it is refused by the name of its field
    said = client.post(
        reverse("emergency_set"), {"kind": "pause", "minutes": "5", "reason": "a\0fire"}
    )
    assert said.status_code == 400
    assert "reason has a character that no text can have" in said.content.decode()
    assert not models.EmergencyControl.objects.exists()


@pytest.mark.parametrize("minutes", ["1" * 18, "43201", "soon", "-1"])
def test_a_drain_that_would_end_too_late_or_at_no_time_is_refused(client, admin, scene, minutes):
    client.force_login(admin)
    node = models.Node.objects.first()
    fields = {"node": node.pk, "minutes": minutes}
    answer = client.post(reverse("node_drain"), fields, follow=True)
    assert answer.status_code == 200
    assert "30 days" in answer.content.decode()
    node.refresh_from_db()
    assert not node.cordoned
