"""The quota editor: a draft in the page, what saving it would do, review, save, history, revert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from dashboard import problems, words
from dashboard.cluster_zone import cluster_zone
from dashboard.forms.timing import AT, NOW, TimingForm
from dashboard.quota_draft import Draft, changes_of, draft_from, read_draft
from dashboard.quota_page import EditorPage, editable_keys, make_page
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.vocabulary import Rank
from scheduler.operations import quotas as operations
from scheduler.operations.authority import NotPermitted
from scheduler.operations.quota_replays import DAYS
from scheduler.operations.quota_schedules import save_schedule
from scheduler.operations.refused import NotFound, QuotaRefused
from scheduler.queries import quota_changes, quota_schedules
from scheduler.queries.pool_state import list_pools
from scheduler.queries.quota_replays import list_replays
from scheduler.queries.quota_tree import QuotaTree, read_quota_tree
from scheduler.queries.settings import read_settings

CHANGES_SHOWN = 10


@login_required
@require_GET
def editor(request: HttpRequest) -> HttpResponse:
    """Answer the tree as it is, or with the values before the change that is to be undone."""
    visible = signed_in.visible_to(request)
    tree = read_quota_tree(visible=visible, pool_name=request.GET.get("pool", ""))
    if tree is None:
        return render(request, "dashboard/quota_editor.html", {"page": None})
    change = None
    wanted = {}
    change_id = optional_int(request.GET.get("revert"))
    if change_id is not None:
        change = quota_changes.find_change(
            visible=visible, pool_name=tree.pool.name, change_id=change_id
        )
        if change is None:
            raise Http404
        editable = editable_keys(tree=tree, authority=signed_in.authority(request))
        before = quota_changes.values_before(tree=tree, change=change)
        wanted = {key: quota for key, quota in before.items() if key in editable}
    edited = _edited(request, tree, request.GET)
    if edited is not None:
        tree = quota_schedules.outside_of(tree, edited)
        wanted = {unit.key: unit.inside for unit in edited.units}
    draft = draft_from(tree=tree, wanted=wanted)
    return show(request, draft, when=NOW if edited is None else AT, edited=edited, reverted=change)


def show(
    request: HttpRequest,
    draft: Draft,
    *,
    when: str = NOW,
    edited: quota_schedules.Scheduled | None = None,
    reverted: quota_changes.QuotaChange | None = None,
    said: Sequence[str] = (),
) -> HttpResponse:
    """Answer the editor with a draft in it; ``said``: why the draft can't be used as it is."""
    visible, tree = signed_in.visible_to(request), draft.tree
    return render(
        request,
        "dashboard/quota_editor.html",
        {
            "page": _page(request, draft, when=when),
            "said": said,
            "edited": edited,
            "scheduled": _scheduled(request, tree),
            "replay_days": DAYS,
            "replays": list_replays(
                visible=visible,
                username=signed_in.user_of(request).get_username(),
                pool_id=tree.pool.id,
                now=timezone.now(),
            )[:5],
            "pools": list_pools(visible=visible),
            "ranks": [(int(rank), words.rank_name(rank)) for rank in reversed(Rank)],
            "reverted": reverted,
            "changes": _changes(request, tree),
        },
        status=400 if said else 200,
    )


@login_required
@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """Answer what saving the draft would do, and what is wrong with its rows."""
    draft = draft_of(request)
    return render(
        request,
        "dashboard/partials/_quota_consequences.html",
        {"page": _page(request, draft), "fresh": True},
    )


@login_required
@require_POST
def review(request: HttpRequest) -> HttpResponse:
    """Answer the draft cell by cell with its consequences, to be confirmed."""
    return _review(request, draft_of(request))


@login_required
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save the whole draft or nothing; a draft that has become another one is shown again."""
    draft = draft_of(request)
    form = _timing(request, draft.tree)
    page = _page(request, draft, when=form.chosen)
    reason = request.POST.get("reason", "").strip()[:500]
    missing = _missing(request, page, reason)
    is_later = form.chosen != NOW
    if page.errors or missing or not draft.edits or (is_later and not form.is_valid()):
        return _review(request, draft, page=page, said=missing, tried=True)
    try:
        if is_later:
            return _save_later(request, draft, form, reason)
        operations.set_quotas(
            pool_id=draft.tree.pool.id,
            edits=draft.edits,
            authority=signed_in.authority(request),
            now=timezone.now(),
            reason=reason,
        )
    except NotFound as error:
        raise Http404 from error
    except QuotaRefused as refused:
        said = [problems.in_words(each) for each in refused.problems]
        return _review(request, draft_of(request), said=said)
    except NotPermitted as refused:
        return _review(request, draft, page=page, said=[problems.refusal(refused)])
    saved = ngettext("{n} row is saved.", "{n} rows are saved.", len(draft.edits))
    messages.success(request, saved.format(n=len(draft.edits)))
    return _go_to(request, "quota_editor", draft.tree)


def _save_later(request: HttpRequest, draft: Draft, form: TimingForm, reason: str) -> HttpResponse:
    """Save the draft as a scheduled change, or as another form of the one that is edited."""
    saved = save_schedule(
        pool_id=draft.tree.pool.id,
        name=form.cleaned_data["name"],
        timing=form.timing(),
        edits=draft.edits,
        authority=signed_in.authority(request),
        now=timezone.now(),
        reason=reason,
        schedule_id=optional_int(request.POST.get("schedule")),
    )
    messages.success(request, _("“{name}” is scheduled.").format(name=saved.name))
    return _go_to(request, "quota_schedules", draft.tree)


def _go_to(request: HttpRequest, name: str, tree: QuotaTree) -> HttpResponse:
    address = f"{reverse(name)}?{urlencode({'pool': tree.pool.name})}"
    if getattr(request, "htmx", False):
        return HttpResponse(headers={"HX-Redirect": address})
    return redirect(address)


def draft_of(request: HttpRequest) -> Draft:
    """Return the draft that a posted form holds."""
    tree = read_quota_tree(
        visible=signed_in.visible_to(request), pool_name=request.POST.get("pool", "")
    )
    if tree is None:
        raise Http404
    edited = _edited(request, tree, request.POST)
    if edited is not None:
        tree = quota_schedules.outside_of(tree, edited)
    return read_draft(
        data=request.POST,
        tree=tree,
        editable=editable_keys(tree=tree, authority=signed_in.authority(request)),
        rebase=request.POST.get("rebase") == "yes",
    )


def _edited(
    request: HttpRequest, tree: QuotaTree, data: Mapping[str, str]
) -> quota_schedules.Scheduled | None:
    """Return the schedule that the draft is an edit of, if it is one."""
    schedule_id = optional_int(data.get("schedule"))
    if schedule_id is None:
        return None
    found = quota_schedules.find_scheduled(
        visible=signed_in.visible_to(request),
        tree=tree,
        schedule_id=schedule_id,
        zone=cluster_zone(),
        now=timezone.now(),
    )
    if found is None:
        raise Http404
    return found


def _scheduled(request: HttpRequest, tree: QuotaTree) -> tuple[quota_schedules.Scheduled, ...]:
    return quota_schedules.list_schedules(
        visible=signed_in.visible_to(request), tree=tree, zone=cluster_zone(), now=timezone.now()
    )


def _timing(request: HttpRequest, tree: QuotaTree) -> TimingForm:
    """Return the form as it was sent; before it was, with what is edited."""
    zone = cluster_zone()
    if "when" in request.POST:
        return TimingForm(request.POST, zone=zone)
    edited = _edited(request, tree, request.POST)
    initial = {} if edited is None else TimingForm.initial_of(edited, zone)
    return TimingForm(initial=initial, zone=zone)


def _page(request: HttpRequest, draft: Draft, *, when: str = NOW) -> EditorPage:
    return make_page(
        draft=draft,
        editable=editable_keys(tree=draft.tree, authority=signed_in.authority(request)),
        visible=signed_in.visible_to(request),
        forbid_oversubscription=read_settings().forbid_oversubscription,
        now=timezone.now(),
        when=when,
    )


def _missing(request: HttpRequest, page: EditorPage, reason: str) -> list[str]:
    """Return what has to be given before the draft is saved."""
    missing = []
    if page.loses_work and not reason:
        missing.append(_("Work would be lost: say why the change is needed."))
    if page.to_confirm and request.POST.get("confirmed") != "yes":
        missing.append(_("Confirm that no GPU work of it can ever run."))
    return missing


def _review(
    request: HttpRequest,
    draft: Draft,
    *,
    page: EditorPage | None = None,
    said: list[str] | None = None,
    tried: bool = False,
) -> HttpResponse:
    htmx = getattr(request, "htmx", False)
    form = _timing(request, draft.tree)
    page = page or _page(request, draft, when=form.chosen)
    return render(
        request,
        "dashboard/partials/_quota_review.html" if htmx else "dashboard/quota_review.html",
        {
            "page": page,
            "said": said or [],
            "moved": _moved(request, draft),
            "reason": request.POST.get("reason", "")[:500],
            "must_say_why": page.loses_work,
            "timing": form,
            "tried": tried,
            "zone": form.zone.key,
            "schedule_id": optional_int(request.POST.get("schedule")),
            "in_windows": _in_windows(request, draft),
        },
    )


def _in_windows(request: HttpRequest, draft: Draft) -> list[dict[str, object]]:
    """Return the open windows that set a row of the draft too."""
    own_id = optional_int(request.POST.get("schedule"))
    return [
        {"scheduled": each, "names": ", ".join(u.name for u in each.units if u.key in draft.wanted)}
        for each in _scheduled(request, draft.tree)
        if each.open and each.id != own_id and each.keys & set(draft.wanted)
    ]


def _moved(request: HttpRequest, draft: Draft) -> list[dict[str, object]]:
    """Return what others have changed of the draft's rows since it was begun."""
    return [
        {
            "row": row,
            "changes": [
                {"change": change, "cells": changes_of(unit.before, unit.after)}
                for change in quota_changes.changes_since(
                    visible=signed_in.visible_to(request),
                    pool_name=draft.tree.pool.name,
                    key=row.key,
                    count=min(20, max(1, row.version - draft.cells[row.key].version)),
                )
                for unit in change.units
            ],
        }
        for row in draft.moved
    ]


def _changes(request: HttpRequest, tree: QuotaTree) -> list[dict[str, object]]:
    visible = signed_in.visible_to(request)
    return [
        {
            "change": change,
            "units": [
                {"name": unit.name, "cells": cells}
                for unit in change.units
                if (cells := changes_of(unit.before, unit.after)) or len(change.units) == 1
            ],
        }
        for change in quota_changes.list_changes(
            visible=visible, pool_name=tree.pool.name, at_most=CHANGES_SHOWN
        )
    ]
