"""Sign-in: throttled and never closed for good; passwords and open sign-ins on one's account page."""

from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.test import Client
from django.urls import reverse

from access import counting, sign_in
from access.models import Session, User
from scheduler import models
from tests.dashboard.conftest import NOON

pytestmark = pytest.mark.django_db

NEW = "harbour-lantern-72"


@pytest.fixture
def mei(db):
    return User.objects.create_user("mei", password="someone-of-tests")


@pytest.fixture(autouse=True)
def no_failures_yet():
    client = counting._client(str(settings.REDIS_URL))
    for key in client.scan_iter("tidegate:count:sign-in:*"):
        client.delete(key)


def sign_in_as(name, password, *, address="10.0.0.1", browser=None):
    browser = browser or Client()
    fields = {"username": name, "password": password}
    return browser.post(reverse("login"), fields, REMOTE_ADDR=address)


def fail(name, times, *, address="10.0.0.1"):
    return [sign_in_as(name, "wrong", address=address) for _ in range(times)][-1]


def test_after_some_failures_one_waits_and_is_told_how_long(mei):
    assert fail("mei", sign_in.FREE_FAILURES - 1).status_code == 200
    answer = fail("mei", 1)
    # Then the answer is 429, with the time in the header and on the page
    assert answer.status_code == 429
    wait = int(answer["Retry-After"])
    assert 0 < wait <= sign_in.FIRST_WAIT_S
    assert f"Try again in {wait} s" in answer.content.decode()
    # And the right password is not looked at either
    assert sign_in_as("mei", "someone-of-tests").status_code == 429
    # It is on record, once
    fail("mei", 3)
    entries = models.AuditEntry.objects.filter(action="sign_in", result="refused")
    assert [(each.object_name, each.address) for each in entries] == [("mei", "10.0.0.1")]


def test_a_wait_ends_by_itself_and_grows_only_to_a_bound(mei):
    attempt = sign_in.Attempt(name="mei", address="10.0.0.1")
    waits = []
    for _ in range(20):
        waits.append(sign_in.failed(attempt, now=NOON))
    assert waits[sign_in.FREE_FAILURES - 1] == sign_in.FIRST_WAIT_S
    assert max(waits) == sign_in.LONGEST_WAIT_S
    # When the wait is over, then the right password lets in, and the failures are forgotten
    counting.forget(keys=[f"{attempt.key('both')}:wait"])
    assert sign_in_as("mei", "someone-of-tests").status_code == 302
    assert fail("mei", sign_in.FREE_FAILURES - 1).status_code == 200


def test_nobody_is_kept_out_by_someone_who_fails_in_their_name(mei, monkeypatch):
    """Given mei has signed in from home, when someone fails in her name from everywhere else."""
    monkeypatch.setattr(sign_in, "NAME_FAILURES", 8)
    assert sign_in_as("mei", "someone-of-tests", address="10.9.9.9").status_code == 302
    for number in range(8):
        fail("mei", 1, address=f"10.1.0.{number}")
    assert sign_in_as("mei", "someone-of-tests", address="10.2.0.1").status_code == 429
    assert models.AuditEntry.objects.filter(reason="8 failures from several addresses").count() == 1
    assert sign_in_as("mei", "someone-of-tests", address="10.9.9.9").status_code == 302


def test_one_password_on_many_names_is_slowed_too(mei, monkeypatch):
    monkeypatch.setattr(sign_in, "ADDRESS_FAILURES", 6)
    for number in range(6):
        fail(f"name-{number}", 1)
    assert sign_in_as("mei", "someone-of-tests").status_code == 429
    # It is on record once, with the address and none of the names
    (entry,) = models.AuditEntry.objects.filter(result="refused")
    assert (entry.actor, entry.object_name, entry.address) == ("", "", "10.0.0.1")
    assert entry.reason == "6 failures from one address"
    assert sign_in_as("mei", "someone-of-tests", address="10.0.0.2").status_code == 302


def test_a_name_that_is_not_there_answers_as_one_that_is(mei):
    User.objects.create_user("old", password="someone-of-tests", is_active=False)
    said = {
        name: re.sub(
            r'value="[^"]*"', "", sign_in_as(name, "wrong", address=f"10.3.{n}.1").content.decode()
        )
        for n, name in enumerate(("mei", "old", "nobody"))
    }
    assert len(set(said.values())) == 1


def test_without_redis_people_still_sign_in(mei, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert fail("mei", sign_in.FREE_FAILURES + 2).status_code == 200
    assert sign_in_as("mei", "someone-of-tests").status_code == 302


def test_a_sign_in_is_on_record(mei):
    sign_in_as("mei", "someone-of-tests")
    entry = models.AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.address) == ("sign_in", "mei", "10.0.0.1")


def test_a_service_account_does_not_sign_in(db):
    program = User(username="nightly", service=True)
    program.set_unusable_password()
    program.save()
    assert sign_in_as("nightly", "").status_code == 200
    assert not Session.objects.filter(user=program).exists()


# --- One's own password and sign-ins --------------------------------------------------------------


def signed_in(browser):
    return SESSION_KEY in browser.session and browser.get(reverse("account")).status_code == 200


@pytest.fixture
def browsers(mei):
    """Two browsers of one person, from two addresses."""
    both = (
        Client(headers={"User-Agent": "Firefox of home"}),
        Client(headers={"User-Agent": "Chromium of work"}),
    )
    for number, browser in enumerate(both):
        sign_in_as("mei", "someone-of-tests", browser=browser, address=f"10.5.0.{number}")
    return both


def change(browser, present, wanted, repeated):
    fields = {"present": present, "wanted": wanted, "repeated": repeated}
    return browser.post(reverse("own_password"), fields)


def test_ones_sign_ins_are_listed_with_where_from_and_the_others_can_be_ended(browsers):
    first, second = browsers
    page = first.get(reverse("account")).content.decode()
    for said in ("Firefox of home", "Chromium of work", "10.5.0.0", "10.5.0.1", "this one"):
        assert said in page
    # No key of a session is on the page
    assert not [row for row in Session.objects.all() if row.session_key in page]
    first.post(reverse("sessions_end"))
    assert signed_in(first)
    assert second.get(reverse("account")).status_code == 302
    assert "Chromium of work" not in first.get(reverse("account")).content.decode()


def test_a_new_password_ends_all_other_sign_ins_and_is_on_record(browsers):
    first, second = browsers
    assert change(first, "someone-of-tests", NEW, NEW).status_code == 302
    assert signed_in(first)
    assert second.get(reverse("account")).status_code == 302
    assert models.AuditEntry.objects.filter(action="user.password", actor="mei").count() == 1
    assert sign_in_as("mei", "someone-of-tests", address="10.6.0.1").status_code == 200
    assert sign_in_as("mei", NEW, address="10.6.0.1").status_code == 302


@pytest.mark.parametrize(
    ("present", "wanted", "repeated", "said"),
    [
        ("wrong", NEW, NEW, "That is not your password."),
        ("someone-of-tests", NEW, "other", "The two are not alike."),
        ("someone-of-tests", "mei", "mei", "too short"),
        ("someone-of-tests", "12345678", "12345678", "entirely numeric"),
        ("someone-of-tests", "password", "password", "too common"),
    ],
)
def test_a_password_that_can_not_be_is_refused_at_its_field(
    browsers, present, wanted, repeated, said
):
    first, second = browsers
    assert said in change(first, present, wanted, repeated).content.decode()
    assert signed_in(second)


def test_guessing_the_present_password_is_throttled_as_a_sign_in_is(browsers):
    first, _second = browsers
    for _ in range(sign_in.FREE_FAILURES):
        answer = change(first, "wrong", NEW, NEW)
    assert "Try again in" in answer.content.decode()
    assert "Try again in" in change(first, "someone-of-tests", NEW, NEW).content.decode()
