"""The administration site: the operations' rules, their audit, and no other door."""

from __future__ import annotations

import pytest
from django import forms
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from access.models import AccessRule, Group, User
from access.roles import Role
from dashboard.admin.base import MOST_COUNTED
from dashboard.admin.site import site
from scheduler import models
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(scene, client, admin):
    client.force_login(admin)
    return client


def row(name):
    return models.ProjectQuota.objects.get(project__name=name)


def listed(*names, **changes):
    """What the list of projects' quotas posts, with ``changes`` as name__column."""
    rows = models.ProjectQuota.objects.order_by("-id")
    data = {
        "form-TOTAL_FORMS": str(rows.count()),
        "form-INITIAL_FORMS": str(rows.count()),
        "_save": "Save",
    }
    for number, each in enumerate(rows):
        values = {
            "id": each.pk,
            "quota_mgpu": each.quota_mgpu / 1000,
            "limit_mgpu": each.limit_mgpu / 1000,
            "over_quota": "on",
            "rank": each.rank,
            "weight_milli": each.weight_milli / 1000,
            "version": each.version,
        }
        for key, value in changes.items():
            name, column = key.split("__")
            if each.project.name == name.replace("_", "-"):
                values[column] = value
        data |= {f"form-{number}-{column}": value for column, value in values.items()}
    return data


@pytest.mark.parametrize("model", sorted(m._meta.model_name for m in site._registry))
def test_every_list_and_form_opens_for_a_system_admin(pages, model):
    app = next(m._meta.app_label for m in site._registry if m._meta.model_name == model)
    assert pages.get(reverse(f"admin:{app}_{model}_changelist")).status_code == 200
    first = next(m for m in site._registry if m._meta.model_name == model)
    for obj in first._default_manager.all()[:1]:
        change = reverse(f"admin:{app}_{model}_change", args=[obj.pk])
        assert pages.get(change).status_code == 200
    added = pages.get(reverse(f"admin:{app}_{model}_add"))
    assert added.status_code in (200, 403)


def test_for_others_the_site_is_not_there(scene, client, researcher):
    # Given a department admin who is even marked as staff, then it reads like any missing address
    user = User.objects.create_user("wen", password="someone-of-tests", is_staff=True)
    AccessRule.objects.create(
        user=user,
        role=Role.DEPARTMENT_ADMIN,
        department=models.Department.objects.get(name="Research"),
    )
    missing = None
    for who in (user, researcher):
        client.force_login(who)
        for address in ("/admin/", "/admin/scheduler/project/", "/admin/login/"):
            assert client.get(address).status_code == 404
        missing = client.get("/no-such-address")
        assert client.get("/admin/").content == missing.content


def test_a_change_is_checked_and_recorded_as_everywhere(pages):
    quota = row("nlp-lab")
    address = reverse("admin:scheduler_projectquota_change", args=[quota.pk])
    fields = {
        "quota_mgpu": "12",
        "limit_mgpu": "10",
        "over_quota": "on",
        "rank": "3",
        "weight_milli": "2",
        "version": quota.version,
    }
    # When the limit is below the guarantee, then it stands at the field with both figures
    refused = pages.post(address, fields)
    assert "The limit 10.00 is below the guarantee 12.00" in refused.content.decode()
    assert row("nlp-lab").quota_mgpu == 10_000
    # When it is not, then it is saved, with one audit line that says where from
    assert pages.post(address, {**fields, "limit_mgpu": "16"}).status_code == 302
    entry = models.AuditEntry.objects.get(action="quota.set", result="done")
    assert (entry.actor, entry.door, entry.object_name) == ("admin", "admin", "nlp-lab")
    assert (entry.before["quota_mgpu"], entry.after["quota_mgpu"]) == (10_000, 12_000)
    # And a second save from the old version is told
    told = pages.post(address, {**fields, "limit_mgpu": "18"}).content.decode()
    assert "has changed nlp-lab since you read it" in told


def test_a_list_save_beyond_the_department_is_refused_as_a_whole_with_the_sum(pages):
    # Given sums above the parent are forbidden, and Dev and test's 24.00 is promised in full
    models.Cluster.objects.update(forbid_oversubscription=True)
    address = reverse("admin:scheduler_projectquota_changelist")
    answer = pages.post(
        address,
        listed(
            dev_train__quota_mgpu="11", dev_inference__quota_mgpu="7", vision_lab__quota_mgpu="9"
        ),
    )
    # Then nothing is saved and the sum stands there
    assert "27.00" in answer.content.decode()
    assert [row(n).quota_mgpu for n in ("dev-train", "dev-inference", "vision-lab")] == [
        10_000,
        6_000,
        8_000,
    ]
    # When what one gets another gives, then it is saved, though no order of single saves would do
    answer = pages.post(address, listed(dev_train__quota_mgpu="12", vision_lab__quota_mgpu="6"))
    assert answer.status_code == 302
    assert [row(n).quota_mgpu for n in ("dev-train", "vision-lab")] == [12_000, 6_000]
    entries = models.AuditEntry.objects.filter(action="quota.set", result="done")
    assert {
        entry.object_name: (entry.before["quota_mgpu"], entry.after["quota_mgpu"])
        for entry in entries
    } == {"dev-train": (10_000, 12_000), "vision-lab": (8_000, 6_000)}
    assert len(entries) == 2


def test_of_a_bulk_deletion_all_stay_where_one_is_refused(pages):
    # Given nlp-lab with running work and an empty project
    empty = models.Project.objects.create(
        department=models.Department.objects.get(name="Research"),
        name="empty",
        slug="empty",
        created_at=models.Project.objects.first().created_at,
    )
    busy = models.Project.objects.get(name="nlp-lab")
    address = reverse("admin:scheduler_project_changelist")
    both = {
        "action": "delete_selected",
        "_selected_action": [busy.pk, empty.pk],
        "post": "yes",
    }
    said = pages.post(address, both, follow=True).content.decode()
    # Then the reason names it, and both are there
    assert "nlp-lab is in use" in said
    assert not models.Project.objects.filter(deleted_at__isnull=False).exists()
    # When only the empty one is chosen, then it is gone, with one audit line
    pages.post(address, {**both, "_selected_action": [empty.pk]})
    assert models.Project.objects.get(pk=empty.pk).deleted_at is not None
    entry = models.AuditEntry.objects.get(action="project.delete")
    assert entry.object_name == "empty"


def test_a_deletion_posted_by_someone_who_may_only_look_is_as_if_it_were_not_there(scene, client):
    client.force_login(person("vera", Role.VIEWER, project="nlp-lab"))
    busy = models.Project.objects.get(name="nlp-lab")
    answer = client.post(
        "/admin/scheduler/project/",
        {"action": "delete_selected", "_selected_action": [busy.pk], "post": "yes"},
    )
    assert answer.status_code == 404
    assert models.Project.objects.get(pk=busy.pk).deleted_at is None


def test_the_log_can_not_be_changed_here(pages):
    entry = models.AuditEntry.objects.create(
        at=models.Project.objects.first().created_at, actor="x", door="page", action="a.b"
    )
    change = reverse("admin:scheduler_auditentry_change", args=[entry.pk])
    delete = reverse("admin:scheduler_auditentry_delete", args=[entry.pk])
    assert pages.post(change, {"actor": "y"}).status_code == 403
    assert pages.post(delete, {"post": "yes"}).status_code == 403
    assert models.AuditEntry.objects.get(pk=entry.pk).actor == "x"


def test_people_are_made_and_given_roles_by_the_same_rules(pages):
    made = pages.post(
        reverse("admin:access_user_add"), {"username": "mei", "email": "", "new_password": "12345"}
    )
    assert "too short" in made.content.decode()
    fields = {"username": "mei", "email": "", "new_password": "harbour-lantern-72"}
    assert pages.post(reverse("admin:access_user_add"), fields).status_code == 302
    mei = User.objects.get(username="mei")
    assert mei.check_password("harbour-lantern-72")
    given = {"user": mei.pk, "role": "viewer", "department": "", "project": ""}
    assert pages.post(reverse("admin:access_accessrule_add"), given).status_code == 302
    assert AccessRule.objects.get(user=mei).cluster
    actions = [e.action for e in models.AuditEntry.objects.order_by("id")]
    assert actions == ["user.create", "access.grant"]
    assert "lantern" not in str(list(models.AuditEntry.objects.values()))


def test_nobody_ends_their_own_account_or_the_last_admin(pages, admin):
    change = reverse("admin:access_user_change", args=[admin.pk])
    said = pages.post(change, {"email": "", "new_password": ""}).content.decode()
    assert "end your own account" in said
    assert User.objects.get(pk=admin.pk).is_active


def test_a_project_moves_only_without_work_and_with_rights_on_both_sides(pages):
    project = models.Project.objects.get(name="nlp-lab")
    target = models.Department.objects.get(name="Dev and test")
    change = reverse("admin:scheduler_project_change", args=[project.pk])
    fields = {"name": "nlp-lab", "department": target.pk, "color": project.color}
    assert "nlp-lab is in use" in pages.post(change, fields).content.decode()
    assert models.Project.objects.get(pk=project.pk).department.name == "Research"


#: What no form of the site takes for an amount, a number, a name or an instant.
NONSENSE = "\x00 neither \u2603" * 40


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_a_price_from_a_day_beyond_what_clocks_can_tell_is_refused_at_its_field(pages, day):
    fields = {"gpu_model": "", "price_per_hour": "5", "from_at_0": day, "from_at_1": "12:00"}
    answer = pages.post(reverse("admin:scheduler_gpuprice_add"), fields)
    assert answer.status_code == 200
    errors = answer.context["adminform"].form.errors
    assert errors["from_at"] == ["Give a date in the years 1970 to 9000."]
    assert not models.GpuPrice.objects.filter(price_per_hour=5).exists()


@pytest.mark.parametrize("typed", ["", NONSENSE])
def test_b39_a_form_of_the_site_says_what_is_wrong_at_its_field_and_changes_nothing(pages, typed):
    # Given every form by which the site makes something
    before = models.AuditEntry.objects.filter(result="done").count()
    silent, walked = [], 0
    for model in site._registry:
        address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add")
        opened = pages.get(address)
        if opened.status_code == 403:
            # Then what is not made here is forbidden when it is posted all the same
            assert pages.post(address, {"name": "mine"}).status_code == 403, address
            continue
        # When it is posted with every field empty, or with nonsense in each, and one that it does not have
        fields = dict.fromkeys(opened.context["adminform"].form.fields, typed)
        answer = pages.post(address, {**fields, "no_such_field": "1"})
        walked += 1
        # Then the same form comes back with what is wrong, and where
        if answer.status_code != 200 or not answer.context["adminform"].form.errors:
            silent.append((address, answer.status_code))
    assert silent == []
    assert walked >= 4
    assert models.AuditEntry.objects.filter(result="done").count() == before


@pytest.mark.parametrize("typed", ["", NONSENSE])
def test_b39_a_change_by_the_site_says_what_is_wrong_and_leaves_the_rest(pages, admin, typed):
    # Given every form by which the site changes what is there, each with one row at least
    Group.objects.create(name="crew", external_name="crew-abroad")
    AccessRule.objects.create(user=admin, role=Role.VIEWER, cluster=True)
    models.GpuPrice.objects.create(
        price_per_hour=1, from_at=models.Project.objects.first().created_at
    )
    then = models.Project.objects.first().created_at
    models.Asset.objects.create(
        name="set",
        kind="source",
        project=models.Project.objects.first(),
        definition={"type": "nfs", "server": "h", "path": "/x"},
        created_at=then,
        updated_at=then,
    )
    models.AuditEntry.objects.create(
        at=models.Project.objects.first().created_at, actor="x", door="page", action="a.b"
    )
    before = models.AuditEntry.objects.filter(result="done").count()
    silent, lost, walked = [], [], 0
    for model in site._registry:
        row = model._default_manager.order_by("pk").first()
        assert row is not None, f"make one of {model}, so that its form is walked"
        address = reverse(
            f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[row.pk]
        )
        opened = pages.get(address)
        form = opened.context["adminform"].form
        if not form.fields:
            # Then what is not changed here is forbidden when it is posted all the same
            assert pages.post(address, {"name": "mine"}).status_code == 403, address
            continue
        # When each field in turn is spoilt and the rest is posted as it stands
        for name in [each for each in form.fields if not is_box(form, each)]:
            fields = posted(form) | {name: typed}
            answer = pages.post(address, fields)
            walked += 1
            if answer.status_code != 200:
                if typed:
                    silent.append((address, name, answer.status_code))
                continue
            said = answer.context["adminform"].form
            # Then the form comes back with a sentence at that field, and everything else as it was typed
            if not said.errors.get(name) and typed:
                silent.append((address, name, dict(said.errors)))
            lost += [
                (address, key)
                for key, value in fields.items()
                if key in said.fields and key not in SECRET and said.data.get(key) != str(value)
            ]
    assert silent == [], silent
    assert lost == [], lost
    assert walked > 20
    if typed:
        assert models.AuditEntry.objects.filter(result="done").count() == before


def is_box(form, name):
    """Whether any text at all ticks it."""
    return isinstance(form.fields[name], forms.BooleanField)


#: Typed anew each time.
SECRET = {"new_password"}


def posted(form):
    """What a browser posts of a form as it was opened."""
    found = {}
    for bound in form:
        value = bound.field.prepare_value(bound.value()) if bound.value() is not None else ""
        if value is False:
            continue
        found[bound.name] = "on" if value is True else str(value)
    return found


# --- B45: lists of tables without end -------------------------------------------------------------


def queries_of(client, address):
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(address)
    assert answer.status_code == 200
    return [each["sql"] for each in queries.captured_queries], answer.content.decode()


LOG = "/admin/scheduler/auditentry/"


@pytest.mark.parametrize("query", ["", "?p=3", "?q=user-7", "?result=refused"])
def test_b45_the_list_of_a_large_table_opens_by_as_many_bounded_queries(pages, query):
    def fill(count):
        models.AuditEntry.objects.bulk_create(
            models.AuditEntry(
                at=timezone.now(), actor=f"user-{number % 50}", door=("page", "api")[number % 2],
                action="quota.set", object_kind="project", result=("done", "refused")[number % 2],
            )
            for number in range(count)
        )  # fmt: skip

    fill(400)
    pages.get(LOG + query)
    few, _page = queries_of(pages, LOG + query)
    fill(MOST_COUNTED + 100)
    many, page = queries_of(pages, LOG + query)
    # Then it is read as before: as many queries, each with a bound, and none that looks at every row
    assert len(many) == len(few)
    on_log = [sql for sql in many if "scheduler_auditentry" in sql]
    assert on_log
    for sql in on_log:
        assert "LIMIT" in sql, sql
        assert "DISTINCT" not in sql, sql
        assert "LIKE" not in sql, sql
    assert ("user-7" in page) or query.startswith("?result")


def test_b45_what_is_beyond_the_counted_pages_is_still_found_by_name(pages):
    models.AuditEntry.objects.create(at=timezone.now(), actor="early-bird", door="page")
    models.AuditEntry.objects.bulk_create(
        models.AuditEntry(at=timezone.now(), actor="someone", door="page")
        for _ in range(MOST_COUNTED)
    )
    _sql, page = queries_of(pages, LOG + "?q=early-bird")
    assert "early-bird" in page.partition('id="result_list"')[2]
