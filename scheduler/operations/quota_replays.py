"""What people do with replays of drafts: ask for one. The worker carries it out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from celery import current_app
from django.db import transaction
from django.db.models import Q

from scheduler import models
from scheduler.core import simulation
from scheduler.core.instants import from_us, to_us
from scheduler.core.simulation import Played, SimulatedPool, Work
from scheduler.core.snapshot import Policy, QueueQuota, Snapshot
from scheduler.core.vocabulary import Level
from scheduler.operations import audit, quota_rules, quotas
from scheduler.operations.authority import Authority
from scheduler.operations.quotas import QuotaEdit
from scheduler.operations.refused import Problem, QuotaRefused, StateRefused
from scheduler.queries import past_work, snapshots
from scheduler.queries.quota_preview import changed_snapshot
from scheduler.queries.quota_tree import FIELDS, Key

DAYS = (7, 30)
#: A cycle at most so often; two runs of a month of 2,000 submissions stay within minutes.
EVERY_US = 300_000_000
#: Of one run. What is played by then is the result, and the page says up to when.
MOST_SECONDS = 240.0
#: Kept for each pool; older ones are forgotten.
KEPT = 20
#: One that has not gone on for so long was cut short, and makes room for another.
STANDS_STILL = timedelta(minutes=5)

Status = models.QuotaReplay.Status
TASK = "scheduler.tasks.replay_quotas"


@transaction.atomic
def ask_replay(
    *, pool_id: int, days: int, edits: Sequence[QuotaEdit], authority: Authority, now: datetime
) -> models.QuotaReplay:
    """Have a draft played over the last days. One at a time is played in a pool.

    Raises:
        NotFound, NotPermitted: as for saving the draft.
        QuotaRefused: the draft changes nothing, or not so many days.
        StateRefused: another replay of the pool is at work.
    """
    models.Cluster.objects.locked()
    pool = quotas.find_pool(pool_id)
    for edit in edits:
        quotas.find_unit(edit.key, authority)
    tree = quotas.read_whole_tree(pool)
    draft = []
    for edit in edits:
        row, wanted = tree.row(edit.key), quota_rules.normalized(edit.values)
        if row is None or wanted == row.quota:
            continue
        cells = {name: getattr(wanted, name) for name in FIELDS}
        draft.append({"level": edit.level.value, "id": edit.id, "name": row.name, "cells": cells})
    if not draft or days not in DAYS:
        raise QuotaRefused([_problem("nothing_to_replay", "The draft changes nothing.")])
    busy = models.QuotaReplay.objects.filter(
        Q(status=Status.RUNNING) | Q(status=Status.QUEUED),
        pool=pool,
        touched_at__gt=now - STANDS_STILL,
    )
    if busy.exists():
        raise StateRefused(
            [_problem("replay_at_work", "Another replay of this pool is at work. Wait for it.")]
        )
    made = models.QuotaReplay.objects.create(
        pool=pool,
        days=days,
        draft=draft,
        requested_by=authority.name,
        requested_at=now,
        touched_at=now,
    )
    old = models.QuotaReplay.objects.filter(pool=pool).order_by("-pk")[KEPT:]
    models.QuotaReplay.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()
    audit.record(
        authority=authority,
        now=now,
        action="quota.replay",
        target=pool,
        after={"days": days, "rows": [row["name"] for row in draft]},
    )
    transaction.on_commit(lambda: current_app.send_task(TASK, args=[made.pk], retry=False))
    return made


def carry_out(*, replay_id: int, now: datetime) -> None:
    """Play a replay that waits: once as things are, once with the draft; keep both figures.

    A failure is kept with the replay, and raised.
    """
    taken = models.QuotaReplay.objects.filter(pk=replay_id, status=Status.QUEUED).update(
        status=Status.RUNNING, touched_at=now
    )
    if not taken:
        return
    replay = models.QuotaReplay.objects.select_related("pool").get(pk=replay_id)
    try:
        replay.result = _Runs(replay, now).both()
    except Exception:
        models.QuotaReplay.objects.filter(pk=replay_id).update(status=Status.FAILED)
        raise
    replay.status, replay.progress_permille = Status.DONE, 1000
    replay.save(update_fields=["result", "status", "progress_permille"])


@dataclass(slots=True)
class _Runs:
    """Both runs of one replay."""

    replay: models.QuotaReplay
    now: datetime

    def both(self) -> dict[str, object]:
        """Play both runs over the same work; the figures of each, by project."""
        loaded = snapshots.load_pool(pool_id=self.replay.pool_id)
        # The past had no such freeze: a replay is of the rules alone.
        policy = replace(loaded.policy, frozen_until_us=None)
        frame = past_work.empty_frame(loaded.snapshot)
        since = self.now - timedelta(days=self.replay.days)
        past = past_work.read_past(
            pool_id=self.replay.pool_id, since=since, until=self.now, frame=frame
        )
        began = time.monotonic()
        before, until_us = self._play(frame, policy, past.work, to_us(self.now), began, 0)
        changed = changed_snapshot(frame, _wanted(self.replay, frame))
        began = time.monotonic()
        after, reached_us = self._play(changed, policy, past.work, until_us, began, 500)
        if reached_us < until_us:  # both have to stand for the same time
            began = time.monotonic()
            before, _same = self._play(frame, policy, past.work, reached_us, began, 500)
        span_us = reached_us - to_us(since)
        return {
            "since": since.isoformat(),
            "until": from_us(reached_us).isoformat(),
            "asked_until": self.now.isoformat(),
            "submitted": len(past.work),
            "left_out": past.left_out,
            "never_ran": past.never_ran,
            "price": str(_price(self.now)),
            "capacity": sum(len(node.devices) for node in frame.nodes) * 1000 * span_us,
            "before": _figures(before),
            "after": _figures(after),
        }

    def _play(
        self,
        frame: Snapshot,
        policy: Policy,
        work: Sequence[Work],
        until_us: int,
        began: float,
        done_permille: int,
    ) -> tuple[dict[int, Played], int]:
        """Play one run; return its figures and the instant up to which it came."""
        from_at_us = to_us(self.now - timedelta(days=self.replay.days))
        pool = SimulatedPool(frame, policy=policy)
        told = began
        copies = past_work.copies(work)
        for now_us in simulation.play(
            pool, copies, from_us=from_at_us, to_us=until_us, every_us=EVERY_US
        ):
            if time.monotonic() - told < 1:
                continue
            told = time.monotonic()
            share = 500 * (now_us - from_at_us) // max(1, until_us - from_at_us)
            self._say(done_permille + share)
            if told - began > MOST_SECONDS:
                return simulation.by_project(pool), now_us
        return simulation.by_project(pool), until_us

    def _say(self, permille: int) -> None:
        models.QuotaReplay.objects.filter(pk=self.replay.pk).update(
            progress_permille=min(999, permille), touched_at=datetime.now(tz=UTC)
        )


def _wanted(replay: models.QuotaReplay, frame: Snapshot) -> Mapping[Key, QueueQuota]:
    there = {(Level.PROJECT, each.id) for each in frame.projects}
    there |= {(Level.DEPARTMENT, each.id) for each in frame.departments}
    wanted = {
        (Level(row["level"]), int(row["id"])): replace(QueueQuota(), **row["cells"])
        for row in replay.draft
    }
    return {key: quota for key, quota in wanted.items() if key in there}


def _figures(played: Mapping[int, Played]) -> dict[str, dict[str, object]]:
    return {
        str(project_id): {
            "submitted": each.submitted,
            # One by one: a percentile of a department is none of its projects'.
            "waits_s": [wait // 1_000_000 for wait in each.waits_us],
            "never_started": each.never_started,
            "interruptions": each.interruptions,
            "held": each.held,
            "unused": each.unused,
        }
        for project_id, each in played.items()
    }


def _price(now: datetime) -> object:
    """Return the default price of a GPU hour now; no price is 0."""
    row = (
        models.GpuPrice.objects.filter(gpu_model="", from_at__lte=now).order_by("-from_at").first()
    )
    return row.price_per_hour if row else 0


def _problem(code: str, message: str) -> Problem:
    return Problem(field="", code=code, message=message)
