"""Scheduled changes of quotas: the next days at a glance, each with what it sets, cancel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from dashboard import problems, words
from dashboard.cluster_zone import cluster_zone
from dashboard.quota_draft import changes_of
from dashboard.quota_page import editable_keys
from dashboard.views import signed_in
from scheduler.core.calendar import Weekly, Window
from scheduler.core.instants import from_us
from scheduler.operations import quota_schedules as operations
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import NotFound, Problem, QuotaRefused
from scheduler.queries import quota_schedules as queries
from scheduler.queries.pool_state import list_pools
from scheduler.queries.quota_schedules import AHEAD, Scheduled
from scheduler.queries.quota_tree import Key, read_quota_tree

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One window or instant on the line of the next days, in thousandths of it."""

    left: int
    width: int
    title: str


@login_required
@require_GET
def schedules(request: HttpRequest) -> HttpResponse:
    """Answer what is scheduled for the pool's quotas, and what was."""
    visible, now, zone = signed_in.visible_to(request), timezone.now(), cluster_zone()
    tree = read_quota_tree(visible=visible, pool_name=request.GET.get("pool", ""))
    if tree is None:
        return render(request, "dashboard/quota_schedules.html", {"tree": None})
    editable = editable_keys(tree=tree, authority=signed_in.authority(request))
    found = queries.list_schedules(visible=visible, tree=tree, zone=zone, now=now)
    past = queries.list_past(visible=visible, tree=tree, zone=zone, now=now)
    first = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return render(
        request,
        "dashboard/quota_schedules.html",
        {
            "tree": tree,
            "pools": list_pools(visible=visible),
            "zone": zone.key,
            "days": [_day(first, number) for number in range(AHEAD.days)],
            "now_at": _place(first, now),
            "items": [_item(each, zone, first, editable) for each in found],
            "past": [{"scheduled": each, "when": when(each, zone)} for each in past],
            "may_edit": bool(editable),
        },
    )


@login_required
@require_POST
def cancel(request: HttpRequest, schedule_id: int) -> HttpResponse:
    """Cancel a scheduled change; an open window goes back to what was before it."""
    try:
        operations.cancel_schedule(
            schedule_id=schedule_id, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
    except QuotaRefused as refused:
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
    else:
        messages.success(request, _("It is cancelled."))
    return redirect("quota_schedules")


def when(scheduled: Scheduled, zone: ZoneInfo) -> str:
    """Return when a schedule switches, in words; times are of the cluster's zone."""
    if scheduled.at is not None:
        return f"{scheduled.at.astimezone(zone):%Y-%m-%d %H:%M}"
    assert scheduled.weekly is not None
    weekly = scheduled.weekly
    return _("{days} {begins}–{ends}").format(
        days=_days(weekly),
        begins=words.clock_of(weekly.from_minute),
        ends=words.clock_of(weekly.to_minute),
    )


def _days(weekly: Weekly) -> str:
    """Return "Mon–Fri" for a run of days, else each of them."""
    days = sorted(weekly.days)
    if len(days) > 2 and days == list(range(days[0], days[-1] + 1)):
        return f"{words.day_name(days[0])}–{words.day_name(days[-1])}"
    return _(", ").join(words.day_name(day) for day in days)


def _item(
    scheduled: Scheduled, zone: ZoneInfo, first: datetime, editable: frozenset[Key]
) -> dict[str, object]:
    return {
        "scheduled": scheduled,
        "when": when(scheduled, zone),
        "next": _local(scheduled.next_at, zone),
        "holidays": sorted(scheduled.weekly.holidays) if scheduled.weekly else [],
        "bars": _bars(scheduled, zone, first),
        "units": [
            {"name": each.name, "color": each.color, "aim": each.aim, "cells": cells}
            for each in scheduled.units
            if (cells := changes_of(each.outside, each.inside)) or each.aim
        ],
        # Of rows that the reader does not see the reason tells nothing.
        "refused": [] if scheduled.partial else [_refused(each) for each in scheduled.refused],
        "may_edit": not scheduled.partial and scheduled.keys <= editable,
    }


def _refused(told: object) -> str:
    assert isinstance(told, dict)
    return problems.in_words(
        Problem(field="", code=told["code"], message=told["code"], params=told["params"])
    )


def _bars(scheduled: Scheduled, zone: ZoneInfo, first: datetime) -> list[Bar]:
    if scheduled.at is not None:
        left = _place(first, scheduled.at)
        title = _local(scheduled.at, zone)
        return [Bar(left=left, width=4, title=title)] if 0 <= left < 1000 else []
    return [_bar(window, zone, first) for window in scheduled.windows]


def _bar(window: Window, zone: ZoneInfo, first: datetime) -> Bar:
    begin, end = from_us(window.begin_us), from_us(window.end_us)
    left, right = max(0, _place(first, begin)), min(1000, _place(first, end))
    title = f"{_local(begin, zone)} – {_local(end, zone)}"
    return Bar(left=left, width=max(1, right - left), title=title)


def _place(first: datetime, at: datetime) -> int:
    """Return where an instant lies on the line, in thousandths; days are of equal length on it."""
    local = at.astimezone(first.tzinfo)
    minutes = 60 * local.hour + local.minute
    days = (local.date() - first.date()).days
    return (days * 1440 + minutes) * 1000 // (AHEAD.days * 1440)


def _day(first: datetime, number: int) -> dict[str, object]:
    day = first.date() + number * DAY
    return {"word": words.day_name(day.weekday()), "date": day, "weekend": day.weekday() > 4}


def _local(at: datetime | None, zone: ZoneInfo) -> str:
    if at is None:
        return "–"
    local = at.astimezone(zone)
    return _("{day} {at}").format(day=words.day_name(local.weekday()), at=f"{local:%m-%d %H:%M}")
