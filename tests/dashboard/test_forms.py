"""Every form: a bad value's error stands at its field and says the way out; nothing typed is lost."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape

import pytest
from django.urls import get_resolver, reverse
from django.utils import timezone
from django.utils.translation import override

from access.models import Group
from access.scopes import authority_of
from access.service_accounts import create_account
from scheduler import models
from scheduler.core.vocabulary import AssetKind
from scheduler.operations import assets, gateway_keys
from scheduler.operations.authority import SYSTEM
from tests.dashboard.test_routes import WORKLOAD, names

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Typed:
    """One form, what is typed into it, and what is wrong with one field. ``{p}`` is nlp-lab's id."""

    fields: dict[str, str]
    #: The field of the error; empty: it stands over the form, since it is about no single field.
    wrong: str
    #: How the sentence begins, or a part of it that says the way out.
    says: str
    #: Fields that are not shown again: what is secret.
    secret: frozenset[str] = field(default_factory=frozenset)


ROW = {
    "pool": "main",
    "project-{p}-limit": "16",
    "project-{p}-over": "on",
    "project-{p}-rank": "2",
    "project-{p}-weight": "7",
    "project-{p}-version": "0",
}
BAD_ROW = Typed(ROW | {"project-{p}-quota": "ten"}, "say-project-{p}", "Not an amount of GPUs")
RULE = {"scope": "project-{p}", "name": "Waits long", "metric": "longest_wait_s", "for_s": "77"}
SERVICE = WORKLOAD | {"project": "{p}", "kind": "inference", "threshold": "2"}
FORMS: dict[str, list[Typed]] = {
    "login": [Typed({"username": "nobody-here", "password": "x"}, "", "", frozenset({"password"}))],
    "workload_new": [
        Typed(WORKLOAD | {"project": "{p}", "gpu": "a lot"}, "about-gpu", "amount"),
        Typed(WORKLOAD | {"project": "{p}", "name": "No Name!"}, "about-name", "Use 1 to 63"),
    ],
    "serve_request_new": [Typed(SERVICE | {"gpu": "7.5x"}, "about-gpu", "amount")],
    "asset_new": [
        Typed(
            {"name": "weights", "scope": "project-{p}", "type": "git", "url": "ftp://h/x"},
            "about-url",
            "Give the address of a repository",
        )
    ],
    "asset": [Typed({"name": "", "url": "https://h/other"}, "about-name", "")],
    "gateway_keys": [
        Typed({"name": "batch", "scope": "project-{p}", "budget": "lots"}, "about-budget", "")
    ],
    "gateway_key": [Typed({"name": "batch", "requests_per_minute": "often"}, "about-", "")],
    "service": [Typed({"min_replicas": "3", "max_replicas": "1"}, "about-", "")],
    "workload_priority": [Typed({"priority": "9999"}, "about-priority", "Select a valid choice")],
    "quota_save": [Typed(BAD_ROW.fields, "", BAD_ROW.says)],
    "quota_review": [Typed(BAD_ROW.fields, "", BAD_ROW.says)],
    "quota_preview": [BAD_ROW],
    "quota_replay_ask": [
        Typed(BAD_ROW.fields | {"days": "7"}, BAD_ROW.wrong, BAD_ROW.says),
        Typed({"pool": "main", "days": "7"}, "", "The draft changes nothing. Edit a row first."),
    ],
    "quota_file": [
        Typed(
            {"ending": "csv", "text": "pool,department,project,guarantee\nmain,Research,nlp-lab,x"},
            "",
            "Line 2, guarantee: “x” is not an amount of GPUs",
        )
    ],
    "people_create": [
        Typed(
            {"username": "bad name!", "email": "a@b.example", "password": "harbour-lantern-72"},
            "wrong-new-username",
            "Enter a valid username",
            frozenset({"password"}),
        ),
        Typed(
            {"username": "fresh", "email": "a@b.example", "password": "1234"},
            "wrong-new-password",
            "too short",
            frozenset({"password"}),
        ),
    ],
    "people_grant": [
        Typed(
            {"to": "user", "username": "nobody-here", "role": "viewer", "scope": "project-{p}"},
            "",
            "There is no such user, group or scope.",
        )
    ],
    "people_change": [
        Typed({"password": "1234"}, "wrong-user-{u}-password", "too short", frozenset({"password"}))
    ],
    "group_create": [
        Typed({"name": "crew", "external_name": "at-home"}, "wrong-new-name", "There is a group")
    ],
    "group_change": [
        Typed({"name": "x" * 101, "external_name": "crew-2"}, "wrong-group-{g}-name", "Give a name")
    ],
    "group_member": [
        Typed({"username": "nobody-here"}, "wrong-member-{g}-username", "There is no such user")
    ],
    "own_password": [
        Typed(
            {"present": "no", "wanted": "harbour-lantern-72", "repeated": "harbour-lantern-72"},
            "about-present",
            "That is not your password.",
            frozenset({"present", "wanted", "repeated"}),
        )
    ],
    "token_create": [
        Typed({"name": "batch", "days": "900", "scope": "project-{p}"}, "about-days", "365")
    ],
    "service_account_create": [
        Typed(
            {"name": "no name!", "scope": "project-{p}", "purpose": "by night"},
            "wrong-new-name",
            "Use 1 to 63 letters",
        )
    ],
    "service_token_create": [
        Typed({"name": "batch", "days": "900"}, "wrong-token-{a}-days", "365")
    ],
    "alert_rule_save": [
        Typed(RULE | {"threshold": "soon"}, "wrong-rule-new-threshold", "The threshold is out of"),
        Typed(RULE | {"threshold": "5", "name": " "}, "wrong-rule-new-name", "Use 1 to 80"),
        Typed(
            RULE | {"threshold": "5", "metric": "budget_spent_permille", "pool": "{pool}"},
            "wrong-rule-new-pool",
            "Choose all of them",
        ),
    ],
    "idle_rule": [
        Typed(
            {"unit": "project-{p}", "kind": "training", "idle_limit_s": "soon"},
            "wrong-project-{p}-training-idle_limit_s",
            "whole number of seconds",
        ),
        Typed(
            {"unit": "project-{p}", "kind": "training", "runtime_limit_s": "1"},
            "wrong-project-{p}-training-runtime_limit_s",
            "seconds to one year",
        ),
    ],
    "emergency_set": [
        Typed(
            {"kind": "pause", "scope": "project-{p}", "minutes": "soon", "reason": "a fire"},
            "wrong-pause-minutes",
            "a whole number of minutes",
        ),
        Typed(
            {"kind": "freeze", "minutes": "77", "reason": " "},
            "wrong-freeze-reason",
            "Say why",
        ),
        Typed(
            {"kind": "hold", "workload": "mine", "minutes": "77", "reason": "a fire"},
            "wrong-hold-workload",
            "by its number",
        ),
    ],
    "serve_request_decline": [
        Typed({"answer": " "}, "wrong-answer-{r}-answer", "Say why it is declined")
    ],
    "notice_channel": [
        Typed({"type": "webhook", "url": "http://127.0.0.1/x"}, "", "")
    ],
    "budget_set": [
        Typed({"unit": "project-{p}", "monthly": "lots"}, "wrong-budget-monthly", "Write it as")
    ],
    "month_close": [Typed({"month": "2999-01"}, "wrong-close-month", "lies in the future")],
}  # fmt: skip
#: Posted without anything typed, by buttons, boxes and lists alone, or answered beside the form.
BUTTONS = {
    "choose_demonstration", "demo_day_start", "demo_day_stop", "workloads_chosen", "workload_stop",
    "workload_start", "workload_delete", "workload_estimate", "asset_delete", "gateway_key_revoke",
    "workload_outlook", "playground_key", "quota_schedule_cancel", "people_revoke", "proof", "proof_cancel",
    "sessions_end", "token_revoke", "service_account_end", "service_token_revoke", "idle_keep",
    "serve_request_approve", "serve_request_withdraw", "notices", "notice_settings",
    "notice_channel_remove", "notice_channel_try", "notice_again", "alert_rule_delete",
    "alert_rule_silence", "alert_acknowledge", "emergency_end", "node_cordon", "node_drain",
    "workspace_open", "saved_drop", "saved_share", "report_save", "logout", "set_language",
    "live",
}  # fmt: skip


@pytest.fixture
def ids(scene, admin, client):
    """One of each thing that a form stands on, and who is signed in."""
    project = models.Project.objects.get(name="nlp-lab")
    now = timezone.now()
    head = authority_of(user=admin, door="page")
    account = create_account(
        name="nightly", purpose="", scope=("project", project.pk), authority=head, now=now
    )
    key = gateway_keys.create_key(
        project_id=project.pk,
        terms=gateway_keys.KeyTerms(name="batch"),
        authority=SYSTEM,
        now=now,
    ).key
    asset = assets.create_asset(
        kind=AssetKind.SOURCE,
        draft=assets.AssetDraft(
            name="set", definition={"type": "git", "url": "https://h/x", "revision": ""}
        ),
        project_id=project.pk,
        authority=SYSTEM,
        now=now,
    )
    request = models.ServeRequest.objects.create(
        project=project, pool=scene, name="chat", requested_by="lin", requested_at=now
    )
    client.force_login(admin)
    group = Group.objects.create(name="crew")
    training = models.Workload.objects.get(name="nlp-pre")
    service = models.Workload.objects.filter(kind="inference").first()
    return {
        "p": project.pk, "pool": scene.pk, "u": admin.pk, "g": group.pk, "a": account.pk,
        "r": request.pk, "key": key.pk, "asset": asset.pk,
        "training": training.pk, "service": service.pk,
    }  # fmt: skip


ARGUMENTS = {
    "asset": "asset", "gateway_key": "key", "service": "service", "workload_priority": "training",
    "people_change": "u", "group_change": "g", "group_member": "g", "service_token_create": "a",
    "serve_request_decline": "r",
}  # fmt: skip


def takes_posts(client, name):
    pattern = next(each for each in patterns(get_resolver()) if each.name == name)
    converters = pattern.pattern.converters
    args = {
        key: "csv" if "str" in type(each).__name__.lower() else 987_654
        for key, each in converters.items()
    }
    return client.post(reverse(name, kwargs=args)).status_code != 405


def patterns(resolver):
    for each in resolver.url_patterns:
        if hasattr(each, "url_patterns"):
            if each.namespace not in {"admin", "api"}:
                yield from patterns(each)
        else:
            yield each


def test_every_form_is_walked_or_has_nothing_to_type(client, admin):
    known = set(FORMS) | BUTTONS
    for name in sorted(set(names(get_resolver())) - known):
        client.force_login(admin)
        assert not takes_posts(client, name), f"{name} takes a form that is not walked here"


def filled(text, ids):
    return re.sub(r"\{(\w+)\}", lambda found: str(ids[found[1]]), text)


CASES = [
    pytest.param(name, typed, id=f"{name}-{typed.wrong or 'whole'}")
    for name, every in FORMS.items()
    for typed in every
]


@pytest.mark.parametrize(("name", "typed"), CASES)
def test_what_is_wrong_stands_at_its_field_and_nothing_typed_is_lost(client, ids, name, typed):
    # Given a form with one bad value
    fields = {filled(key, ids): filled(text, ids) for key, text in typed.fields.items()}
    args = [ids[ARGUMENTS[name]]] if name in ARGUMENTS else []
    if name == "login":
        client.logout()
    # When it is sent
    with override("en"):
        answer = client.post(reverse(name, args=args), fields)
    page = answer.content.decode()
    # Then the page with the form is answered, not another one
    assert answer.status_code in (200, 400, 403), answer.headers
    # And the sentence stands at the field, or over the form
    place = filled(typed.wrong, ids)
    near = page
    if place:
        at = re.search(rf'id="{re.escape(place)}[^"]*"', page)
        assert at, f"nothing is marked {place}"
        places = [m.start() for m in re.finditer(rf'id="{re.escape(place)}[^"]*"', page)]
        near = " ".join(page[max(0, start - 60) : start + 700] for start in places)
    assert typed.says in unescape(re.sub(r"<[^>]+>", "", near))
    assert 'class="error"' in near or 'role="alert"' in near
    # And what was typed is there again, but for secrets
    for key, text in fields.items():
        if key in typed.secret:
            assert f'value="{text}"' not in page
        elif text.strip() and name not in NOT_A_PAGE:
            assert unescape(text) in unescape(page), f"{key}={text} is lost"


#: Answers what would come of the draft to the page that still holds it.
NOT_A_PAGE = {"quota_preview"}
