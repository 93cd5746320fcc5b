"""The quota editor: drafts, what stands beside them, saving, and two people at once."""

from __future__ import annotations

import pytest
from django.urls import reverse

from access.models import AccessRule, User
from access.roles import Role
from scheduler import models
from scheduler.core.vocabulary import Level
from scheduler.queries.quota_tree import read_quota_tree
from scheduler.queries.visibility import WHOLE_CLUSTER
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def pages(scene, client, admin):
    client.force_login(admin)
    return client


@pytest.fixture
def head_of_research(scene):
    user = User.objects.create_user("wen", password="someone-of-tests")
    department = models.Department.objects.get(name="Research")
    AccessRule.objects.create(user=user, role=Role.DEPARTMENT_ADMIN, department=department)
    return user


def row_of(name):
    tree = read_quota_tree(visible=WHOLE_CLUSTER)
    return next(row for row in tree.rows if row.name == name)


def form(*names, **changes):
    """The fields of the named rows as the page has them, with ``changes`` to the last one."""
    from dashboard.quota_draft import cells_of

    data = {"pool": "main"}
    for name in names:
        row = row_of(name)
        cells = cells_of(row)
        fields = {
            "quota": cells.quota,
            "limit": cells.limit,
            "over": "on" if cells.over else "",
            "rank": str(cells.rank),
            "weight": cells.weight,
            "version": str(cells.version),
            "base": cells.base,
        }
        if name == names[-1]:
            fields |= changes
        data |= {f"{row.unit}-{key}": value for key, value in fields.items() if value}
    return data


def text(answer):
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_a_system_admin_may_change_every_row_and_a_department_admin_only_its_projects(
    pages, head_of_research
):
    whole = text(pages.get(reverse("quota_editor")))
    assert whole.count('-quota"') == 10
    assert "View only" not in whole
    # When the head of Research opens the page
    pages.force_login(head_of_research)
    own = text(pages.get(reverse("quota_editor")))
    # Then its own row is View only, its two projects can be changed, and nothing else is there
    assert own.count('-quota"') == 2
    assert own.count("View only") == 1
    assert "vision-lab" not in own
    assert "Production" not in own


def test_a_researcher_reads_the_page_and_can_not_save(scene, client, researcher):
    client.force_login(researcher)
    page = text(client.get(reverse("quota_editor")))
    assert '-quota"' not in page
    assert "View only" in page
    # When the fields are posted all the same
    client.post(reverse("quota_save"), form("nlp-lab", quota="16"))
    assert row_of("nlp-lab").quota.quota_mgpu == 10_000


def test_a_mistake_stands_at_its_row_with_both_figures(pages):
    said = text(pages.post(reverse("quota_preview"), form("nlp-lab", quota="18", limit="16")))
    assert "The limit 16.00 is below the guarantee 18.00." in said
    assert "1 thing has to be put right first." in said


def test_a_guarantee_below_protected_work_names_who_holds_it(pages):
    row = row_of("dev-inference")
    assert row.protected_mgpu > 1_000
    said = text(pages.post(reverse("quota_preview"), form("dev-inference", quota="1")))
    assert "Work of dev-inference that can&#x27;t be interrupted holds" in said
    assert row.holders[0] in said


def test_nothing_guaranteed_and_no_borrowing_is_said_and_has_to_be_confirmed(pages):
    data = form("prod-training", quota="0", over="")
    assert "no GPU work of it can ever run" in text(pages.post(reverse("quota_preview"), data))
    refused = text(pages.post(reverse("quota_save"), {**data, "reason": "no more of it"}))
    assert "Confirm that" in refused
    saved = pages.post(
        reverse("quota_save"), {**data, "reason": "no more of it", "confirmed": "yes"}
    )
    assert saved.status_code == 302
    assert row_of("prod-training").quota.effective_limit_mgpu == 0


def test_children_above_their_parent_are_a_warning_and_are_refused_where_the_cluster_says_so(pages):
    data = form("nlp-lab", quota="12")
    said = text(pages.post(reverse("quota_preview"), data))
    assert "18.00 of the department&#x27;s 16.00" in said
    models.Cluster.objects.update(forbid_oversubscription=True)
    said = text(pages.post(reverse("quota_save"), {**data, "reason": "more"}))
    assert '<button class="btn primary" disabled>' in said
    assert row_of("nlp-lab").quota.quota_mgpu == 10_000


def test_the_share_of_surplus_follows_the_weight_while_typing(pages):
    said = text(pages.post(reverse("quota_preview"), form("bio-fold", weight="6")))
    assert "75%" in said
    assert "25%" in said


def test_what_would_be_interrupted_is_named_with_its_loss_and_needs_a_reason(pages):
    # Given dev-train waits for one GPU more than it is guaranteed, and vision-lab holds 9.50
    data = form("vision-lab", quota="2") | form("dev-train", quota="16", limit="20")
    # When vision-lab's guarantee would go down to 2 and dev-train's up to 16
    said = text(pages.post(reverse("quota_preview"), data))
    # Then the page names who would be interrupted, for whom, and what is lost
    assert "1 workload would be interrupted" in said
    assert "for dev-train / sft-nightly" in said
    assert "no checkpoint: loses" in said
    # And without a reason nothing is saved
    refused = text(pages.post(reverse("quota_save"), data))
    assert "say why the change is needed" in refused
    assert row_of("vision-lab").quota.quota_mgpu == 8_000


def test_a_draft_is_saved_whole_with_reason_and_history_and_can_be_reverted(pages):
    data = form("nlp-lab", quota="9") | form("bio-fold", quota="7")
    answer = pages.post(reverse("quota_save"), {**data, "reason": "as agreed"})
    assert answer.status_code == 302
    assert (row_of("nlp-lab").quota.quota_mgpu, row_of("bio-fold").quota.quota_mgpu) == (
        9_000,
        7_000,
    )
    page = text(pages.get(reverse("quota_editor")))
    assert "as agreed" in page
    # When that change is reverted, then the draft has the old values, and saving sets them
    first = models.AuditEntry.objects.filter(action="quota.set").order_by("id").first()
    undo = text(pages.get(reverse("quota_editor"), {"revert": first.pk}))
    assert "This draft sets the values from before" in undo
    assert 'value="10.00"' in undo


def test_the_second_of_two_admins_is_told_what_the_first_changed_and_loses_nothing(pages):
    # Given both opened nlp-lab, and the first set its limit to 20
    mine = form("nlp-lab", weight="3")
    pages.post(reverse("quota_save"), {**form("nlp-lab", limit="20"), "reason": "room"})
    # When the second saves a weight from the old form
    said = text(pages.post(reverse("quota_save"), {**mine, "reason": "order"}))
    # Then it is told, nothing is saved, and on top of the new values both stand
    assert "was changed by someone else while you edited it" in said
    assert "Limit <span" in said
    assert "20.00" in said
    assert row_of("nlp-lab").quota.weight_milli == 2_000
    pages.post(reverse("quota_save"), {**mine, "reason": "order", "rebase": "yes"})
    quota = row_of("nlp-lab").quota
    assert (quota.limit_mgpu, quota.weight_milli) == (20_000, 3_000)


def test_a_foreign_pool_or_change_is_not_there(pages, head_of_research):
    pages.post(reverse("quota_save"), {**form("vision-lab", weight="3"), "reason": "x"})
    entry = models.AuditEntry.objects.get(action="quota.set", result="done")
    pages.force_login(head_of_research)
    answer = pages.get(reverse("quota_editor"), {"revert": entry.pk})
    missing = pages.get(reverse("quota_editor"), {"revert": 999_999})
    assert (answer.status_code, missing.status_code) == (404, 404)


def test_the_tree_keeps_departments_before_their_projects(scene):
    rows = read_quota_tree(visible=WHOLE_CLUSTER).rows
    own = [row.level for row in rows if row.department_id == rows[0].department_id]
    assert own == [Level.DEPARTMENT, Level.PROJECT, Level.PROJECT]


def test_unlisted_people_see_an_empty_page(scene, client):
    client.force_login(User.objects.create_user("nobody", password="someone-of-tests"))
    assert "no department yet that you may see" in text(client.get(reverse("quota_editor")))


def test_a_reader_of_one_project_sees_no_figures_of_its_department(scene, client):
    client.force_login(person("lee", Role.VIEWER, project="nlp-lab"))
    # Given Research is guaranteed 16.00 of up to 24.00, and nlp-lab 10.00 of up to 16.00
    page = text(client.get(reverse("quota_editor")))
    assert page.count("10.00</td>") == 1
    assert "24.00" not in page
    assert "9.50" not in page
