"""What people are told: written with the fact, seen, chosen where, and put into messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Min

from scheduler import models
from scheduler.core.notices import CHANNELS, PAGE, Kind
from scheduler.operations import audit
from scheduler.operations.authority import SYSTEM, Authority
from scheduler.operations.refused import Problem, StateRefused

#: Seconds for which notices are gathered, as they may be chosen.
DIGESTS_S = (0, 30, 300, 3600, 86_400)
NOTICES_KEPT = timedelta(days=90)
MESSAGES_KEPT = timedelta(days=30)
MOST_IN_ONE = 500
#: An audience: all who have some role somewhere.
EVERYONE = "everyone"


# --- Written with the fact ------------------------------------------------------------------------


def tell(
    *,
    username: str,
    code: str,
    params: Mapping[str, object],
    now: datetime,
    workload: models.Workload | None = None,
) -> None:
    """Tell one person, in the transaction of the fact. The tick and the command line are no one."""
    if username in ("", SYSTEM.name):
        return
    models.Notification.objects.create(
        username=username, at=now, code=code, params=dict(params), workload=workload
    )


def tell_owner(
    *, workload: models.Workload, code: str, params: Mapping[str, object], now: datetime
) -> None:
    """Tell whoever submitted a workload."""
    tell(username=workload.submitted_by, code=code, params=params, now=now, workload=workload)


def announce(
    *,
    code: str,
    params: Mapping[str, object],
    audience: str,
    now: datetime,
    department: models.Department | None = None,
    project: models.Project | None = None,
    skip: str = "",
) -> None:
    """Tell all who may do ``audience`` there, in the transaction of the fact; "see": who sees it;
    ``EVERYONE``: who has a role anywhere.

    Scratch trees of verifications are nobody's business.
    """
    if (department or (project and project.department) or _NOT_SCRATCH).scratch:
        return
    models.Announcement.objects.create(
        at=now,
        code=code,
        params=dict(params),
        audience=audience,
        department=department,
        project=project,
        skip_username=skip,
    )


class _Unscoped:
    scratch = False


_NOT_SCRATCH = _Unscoped()


@transaction.atomic
def tell_announced(*, announcement_id: int, usernames: Sequence[str], now: datetime) -> bool:
    """Tell these people what was announced, once; False: someone else has."""
    waiting = models.Announcement.objects.filter(pk=announcement_id, told_at=None)
    if not waiting.update(told_at=now):
        return False
    row = models.Announcement.objects.get(pk=announcement_id)
    models.Notification.objects.bulk_create(
        models.Notification(username=name, at=row.at, code=row.code, params=row.params)
        for name in usernames
        if name != row.skip_username
    )
    return True


# --- What a person does ---------------------------------------------------------------------------


def mark_seen(*, username: str, now: datetime) -> int:
    """Mark all lines of a person as seen; return how many were not."""
    unread = models.Notification.objects.filter(username=username, read_at=None)
    return unread.update(read_at=now)


@transaction.atomic
def set_choices(
    *,
    choices: Mapping[str, Sequence[str]],
    digest_s: int,
    authority: Authority,
    now: datetime,
) -> None:
    """Set where each kind goes to for oneself, and how long notices are gathered.

    Raises:
        StateRefused: a kind, a channel or a time that there is none of.
    """
    known = all(
        kind in set(Kind) and set(names) <= set(CHANNELS) for kind, names in choices.items()
    )
    if not known or digest_s not in DIGESTS_S:
        problem = Problem(
            field="choices", code="bad_choice", message="There is no such kind, channel or time."
        )
        raise StateRefused([problem])
    before = models.NoticeSettings.objects.filter(username=authority.name).first()
    row, _made = models.NoticeSettings.objects.update_or_create(
        username=authority.name,
        defaults={
            "choices": {kind: list(names) for kind, names in choices.items()},
            "digest_s": digest_s,
        },
    )
    audit.record(
        authority=authority,
        now=now,
        action="notices.choose",
        target=row,
        before={"choices": before.choices, "digest_s": before.digest_s} if before else {},
        after={"choices": row.choices, "digest_s": row.digest_s},
    )


# --- From the outbox to messages ------------------------------------------------------------------


def gather(*, now: datetime) -> int:
    """Put notices whose time has come into messages; return how many messages.

    One transaction a person: a notice is in a message of each channel that its kind goes to, or in
    none and still in the outbox.
    """
    waiting = models.Notification.objects.filter(sorted_at=None)
    oldest = waiting.values("username").annotate(since=Min("at")).order_by("username")
    settings = {row.username: row for row in models.NoticeSettings.objects.all()}
    made = 0
    for entry in oldest:
        chosen = settings.get(entry["username"]) or models.NoticeSettings(
            username=entry["username"]
        )
        if now - entry["since"] >= timedelta(seconds=chosen.digest_s):
            made += _gather_for(chosen, now)
    return made


@transaction.atomic
def _gather_for(chosen: models.NoticeSettings, now: datetime) -> int:
    rows = list(
        models.Notification.objects.select_for_update()
        .filter(username=chosen.username, sorted_at=None)
        .order_by("id")[:MOST_IN_ONE]
    )
    by_channel: dict[str, list[int]] = defaultdict(list)
    unseen: list[int] = []
    for row in rows:
        names = chosen.channels_for(row.code)
        for name in names:
            by_channel[name].append(row.pk)
        if PAGE not in names:
            unseen.append(row.pk)
    ids = [row.pk for row in rows]
    models.Notification.objects.filter(pk__in=ids).update(sorted_at=now)
    models.Notification.objects.filter(pk__in=unseen, read_at=None).update(read_at=now)
    channels = models.NoticeChannel.objects.filter(username=chosen.username, type__in=by_channel)
    deliveries = [
        models.NoticeDelivery(
            channel=channel, notices=by_channel[channel.type], created_at=now, next_at=now
        )
        for channel in channels
    ]
    models.NoticeDelivery.objects.bulk_create(deliveries)
    return len(deliveries)


def forget_old(*, now: datetime) -> None:
    """Drop what nobody looks at any more."""
    models.Notification.objects.filter(at__lt=now - NOTICES_KEPT).delete()
    models.Announcement.objects.filter(told_at__lt=now - NOTICES_KEPT).delete()
    models.NoticeDelivery.objects.filter(created_at__lt=now - MESSAGES_KEPT).exclude(
        status=models.NoticeDelivery.Status.WAITING
    ).delete()
