"""From a fact to the person: gathered, sent at least once with one id, tried again, given up."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from notices import tasks
from scheduler import models
from scheduler.core.notices import KIND_OF
from scheduler.models.notices import NoticeDelivery
from scheduler.operations import deliveries
from scheduler.operations import notices as operations
from scheduler.queries import notices as queries
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility
from tests.notices.conftest import at_once, channel, person

pytestmark = pytest.mark.django_db


def tell(user, code="work_failed", workload=None, at=None, **params):
    operations.tell(
        username=user.username,
        code=code,
        params=params,
        now=at or timezone.now(),
        workload=workload,
    )


def reclaimed(place, user, count, *, by="unit-b"):
    """Let ``count`` workloads of a person be taken by one decision."""
    served = place.submit("c-1", of=by, gpu="0.09")
    decision = models.Decision.objects.create(
        at=timezone.now(), verb="reclaim", workload=served, project=served.project, pool=place.pool
    )
    for number in range(count):
        workload = place.submit(f"train-{number}", of="unit-a", gpu="0.09")
        tell(user, "reclaimed", workload, decision=decision.pk, freed_mgpu=90)


def test_a_reclaim_of_40_is_one_message_by_mail_and_one_line_on_the_page(place, mail):
    # Given someone who wants mail, and half a minute in which notices are gathered
    ann = person("ann", place)
    channel(ann, "email")
    models.Cluster.objects.update(time_zone="Asia/Taipei")
    begun = timezone.now()
    # When 40 of its workloads are reclaimed
    reclaimed(place, ann, 40)
    # Then nothing is sent before the time is over
    operations.gather(now=begun + timedelta(seconds=5))
    assert tasks.send_due(for_s=5) == 0
    # And then one message, in which the other project has no name: ann does not see it
    models.Notification.objects.update(at=begun - timedelta(seconds=60))
    operations.gather(now=timezone.now())
    assert tasks.send_due(for_s=5) == 1
    (letter,) = mail.taken
    assert letter["To"] == "ann@example.org"
    body = letter.get_content()
    assert "40 workloads were reclaimed by another project, within its guarantee" in body
    assert "train-0, train-1, train-2, 37 more" in body
    assert "unit-b" not in body
    # And its time is that of the cluster, with the zone's name
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d Asia/Taipei  40 workloads", body, re.MULTILINE)
    # And the page has one line of it
    visible = Visibility(project_ids=frozenset({place.projects["unit-a"].pk}))
    (line,) = queries.list_notices(username="ann", visible=visible)
    assert line.count == 40


def test_who_may_see_the_other_project_is_told_its_name_and_when_it_is_back(place):
    ann = person("ann", place)
    reclaimed(place, ann, 1)
    models.Workload.objects.filter(name="train-0").update(
        reason_code="OverLimit",
        reason={
            "code": "OverLimit", "resource": "gpu", "level": "department",
            "queue": place.departments["dev-test"].pk,
            "limit": 760, "allocated": 750, "requested": 90,
        },
    )  # fmt: skip
    (line,) = queries.list_notices(username="ann", visible=WHOLE_CLUSTER)
    said = "".join(span.text for span in line.text)
    assert "unit-b / c-1 takes back 0.09 GPU" in said
    assert "Runs when dev-test releases 0.08." in said


def test_a_webhook_is_signed_and_its_receiver_can_check_it(place, receiver):
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "webhook", url=f"{receiver.url}/hook", secret="s3cret")
    work = place.submit("train-1", of="unit-a", gpu="0.09")
    tell(ann, "preempted", work, freed_mgpu=90)
    tasks.deliver()
    ((path, headers, body),) = receiver.got
    assert path == "/hook"
    # The receiver's side: the seconds, a dot and the body, by the secret
    at_s, digest = re.fullmatch(r"t=(\d+),v1=(\w+)", headers["X-Tidegate-Signature"]).groups()
    expected = hmac.new(b"s3cret", f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(digest, expected)
    told = json.loads(body)
    assert (
        told["delivery"] == headers["X-Tidegate-Delivery"] == str(NoticeDelivery.objects.get().pk)
    )
    (notice,) = told["notices"]
    assert (notice["kind"], notice["code"], notice["workload_id"]) == (
        "taken",
        "preempted",
        work.pk,
    )
    assert NoticeDelivery.objects.get().status == "sent"


def test_slack_gets_text_in_which_names_are_no_markup(place, receiver):
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "slack", url=receiver.url)
    tell(ann, "idle_stop", name="<!channel>", limit_s=60)
    tasks.deliver()
    ((_path, _headers, body),) = receiver.got
    text = json.loads(body)["text"]
    assert "&lt;!channel&gt; was stopped after 1 min of idle time." in text


def test_the_message_is_in_the_readers_language(place, mail):
    ann = person("ann", place, language="zh-hant")
    at_once(ann)
    channel(ann, "email")
    tell(ann, "work_failed", place.submit("train-1", of="unit-a", gpu="0.09"), exit_code=3)
    operations.set_choices(
        choices={"state": ["email"]}, digest_s=0, authority=caller("ann"), now=timezone.now()
    )
    tasks.deliver()
    assert "train-1 失敗，結束代碼 3。" in mail.taken[0].get_content()


def caller(name):
    from tests.notices.conftest import Caller

    return Caller(name)


def test_what_a_kind_goes_to_is_chosen(place, mail):
    # Given someone who wants what was taken by mail alone, and nothing of the rest
    ann = person("ann", place)
    channel(ann, "email")
    choices = {"taken": ["email"], "limits": []}
    operations.set_choices(choices=choices, digest_s=0, authority=caller("ann"), now=timezone.now())
    work = place.submit("train-1", of="unit-a", gpu="0.09")
    tell(ann, "reclaimed", work, freed_mgpu=90)
    tell(ann, "idle_stop", work, limit_s=60)
    tasks.deliver()
    # Then the mail has the one, and the page neither
    assert "reclaimed" in mail.taken[0].get_content()
    assert "idle time" not in mail.taken[0].get_content()
    assert queries.list_notices(username="ann", visible=WHOLE_CLUSTER) == ()
    assert queries.count_unread(username="ann") == 0


def test_a_receiver_that_fails_is_tried_again_with_the_same_id_until_it_takes_it(place, receiver):
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "webhook", url=receiver.url, secret="s")
    receiver.statuses = [500, 503]
    tell(ann, "idle_stop", name="x", limit_s=60)
    tasks.deliver()
    for _ in range(2):
        row = NoticeDelivery.objects.get()
        assert row.status == "waiting"
        assert row.next_at > timezone.now() + timedelta(seconds=5)
        NoticeDelivery.objects.update(next_at=timezone.now())
        tasks.send_due(for_s=5)
    assert len({headers["X-Tidegate-Delivery"] for _path, headers, _body in receiver.got}) == 1
    assert len(receiver.got) == 3
    assert NoticeDelivery.objects.get().status == "sent"


def test_pauses_grow_and_then_it_is_given_up_shown_and_tried_again_on_demand(place, receiver):
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "webhook", url=receiver.url, secret="s")
    receiver.statuses = [500] * (len(deliveries.PAUSES_S) + 1)
    tell(ann, "idle_stop", name="x", limit_s=60)
    tasks.deliver()
    pauses = []
    while (row := NoticeDelivery.objects.get()).status == "waiting":
        pauses.append((row.next_at - timezone.now()).total_seconds())
        NoticeDelivery.objects.update(next_at=timezone.now())
        tasks.send_due(for_s=5)
    assert pauses == sorted(pauses)
    assert len(receiver.got) == len(deliveries.PAUSES_S) + 1
    (shown,) = queries.list_deliveries(username="ann")
    assert shown.status == "dead"
    assert "answered 500" in shown.error
    deliveries.send_again(delivery_id=row.pk, authority=caller("ann"), now=timezone.now())
    tasks.send_due(for_s=5)
    assert NoticeDelivery.objects.get().status == "sent"


def test_a_worker_that_dies_while_it_sends_loses_nothing(place, receiver):
    # Given a message that someone claimed and never spoke of again
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "webhook", url=receiver.url, secret="s")
    tell(ann, "idle_stop", name="x", limit_s=60)
    operations.gather(now=timezone.now())
    claimed = deliveries.claim_due(now=timezone.now())
    assert claimed is not None
    assert deliveries.claim_due(now=timezone.now()) is None
    # When a minute has passed, then another sends it under the same id
    NoticeDelivery.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    tasks.send_due(for_s=5)
    ((_path, headers, _body),) = receiver.got
    assert headers["X-Tidegate-Delivery"] == str(claimed.id)


def test_a_crash_before_the_message_is_made_leaves_it_in_the_outbox(place, mail, monkeypatch):
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "email")
    tell(ann, "idle_stop", name="x", limit_s=60)

    def dies(*_args, **_more):
        raise RuntimeError("the machine is gone")

    with monkeypatch.context() as patched:
        patched.setattr(models.NoticeDelivery.objects, "bulk_create", dies)
        with pytest.raises(RuntimeError):
            operations.gather(now=timezone.now())
    assert models.Notification.objects.filter(sorted_at=None).count() == 1
    tasks.deliver()
    assert len(mail.taken) == 1


def test_a_mail_server_that_is_busy_is_asked_again(place, mail):
    ann = person("ann", place)
    at_once(ann)
    channel(ann, "email")
    mail.refuses = 1
    tell(ann, "idle_stop", name="x", limit_s=60)
    tasks.deliver()
    assert "451" in NoticeDelivery.objects.get().error
    NoticeDelivery.objects.update(next_at=timezone.now())
    tasks.send_due(for_s=5)
    (letter,) = mail.taken
    assert str(NoticeDelivery.objects.get().pk) in letter["Message-ID"]


def test_secrets_do_not_stand_in_the_tables(place, receiver):
    ann = person("ann", place)
    channel(ann, "webhook", url=f"{receiver.url}/T0KEN", secret="s3cret")
    row = models.NoticeChannel.objects.get()
    assert b"s3cret" not in bytes(row.sealed)
    assert b"T0KEN" not in bytes(row.sealed)
    logged = list(models.AuditEntry.objects.values_list("after", flat=True))
    assert "s3cret" not in str(logged)


def test_every_code_has_a_kind_and_a_sentence(place):
    ann = person("ann", place)
    work = place.submit("train-1", of="unit-a", gpu="0.09")
    params = {
        "metric": "longest_wait_s", "value": 5, "threshold": 4, "changes": {"quota_mgpu": [1, 2]},
    }  # fmt: skip
    for code in KIND_OF:
        tell(ann, code, work, **params)
    lines = queries.list_notices(username="ann", visible=WHOLE_CLUSTER)
    shown = {line.code for line in lines}
    assert shown == set(KIND_OF) - {"work_running"}
