"""The quota editor: a draft in the page, what saving it would do, review, save, history, revert."""

from __future__ import annotations

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
from dashboard.quota_draft import Draft, changes_of, draft_from, read_draft
from dashboard.quota_page import EditorPage, editable_keys, make_page
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.core.vocabulary import Rank
from scheduler.operations import quotas as operations
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import NotFound, QuotaRefused
from scheduler.queries import quota_changes
from scheduler.queries.pool_state import list_pools
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
    draft = draft_from(tree=tree, wanted=wanted)
    return render(
        request,
        "dashboard/quota_editor.html",
        {
            "page": _page(request, draft),
            "pools": list_pools(visible=visible),
            "ranks": [(int(rank), words.rank_name(rank)) for rank in reversed(Rank)],
            "reverted": change,
            "changes": _changes(request, tree),
        },
    )


@login_required
@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """Answer what saving the draft would do, and what is wrong with its rows."""
    draft = _draft(request)
    return render(
        request,
        "dashboard/partials/_quota_consequences.html",
        {"page": _page(request, draft), "fresh": True},
    )


@login_required
@require_POST
def review(request: HttpRequest) -> HttpResponse:
    """Answer the draft cell by cell with its consequences, to be confirmed."""
    return _review(request, _draft(request))


@login_required
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save the whole draft or nothing; a draft that has become another one is shown again."""
    draft = _draft(request)
    page = _page(request, draft)
    reason = request.POST.get("reason", "").strip()[:500]
    missing = _missing(request, page, reason)
    if page.errors or missing or not draft.edits:
        return _review(request, draft, page=page, said=missing)
    try:
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
        return _review(request, _draft(request), said=said)
    except NotPermitted as refused:
        return _review(request, draft, page=page, said=[str(refused)])
    saved = ngettext("{n} row is saved.", "{n} rows are saved.", len(draft.edits))
    messages.success(request, saved.format(n=len(draft.edits)))
    address = f"{reverse('quota_editor')}?pool={draft.tree.pool.name}"
    if getattr(request, "htmx", False):
        return HttpResponse(headers={"HX-Redirect": address})
    return redirect(address)


def _draft(request: HttpRequest) -> Draft:
    tree = read_quota_tree(
        visible=signed_in.visible_to(request), pool_name=request.POST.get("pool", "")
    )
    if tree is None:
        raise Http404
    return read_draft(
        data=request.POST,
        tree=tree,
        editable=editable_keys(tree=tree, authority=signed_in.authority(request)),
        rebase=request.POST.get("rebase") == "yes",
    )


def _page(request: HttpRequest, draft: Draft) -> EditorPage:
    return make_page(
        draft=draft,
        editable=editable_keys(tree=draft.tree, authority=signed_in.authority(request)),
        visible=signed_in.visible_to(request),
        forbid_oversubscription=read_settings().forbid_oversubscription,
        now=timezone.now(),
    )


def _missing(request: HttpRequest, page: EditorPage, reason: str) -> list[str]:
    """Return what has to be given before the draft is saved."""
    missing = []
    if page.preview is not None and page.preview.loses_work and not reason:
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
) -> HttpResponse:
    htmx = getattr(request, "htmx", False)
    page = page or _page(request, draft)
    return render(
        request,
        "dashboard/partials/_quota_review.html" if htmx else "dashboard/quota_review.html",
        {
            "page": page,
            "said": said or [],
            "moved": _moved(request, draft),
            "reason": request.POST.get("reason", "")[:500],
            "must_say_why": page.preview is not None and page.preview.loses_work,
        },
    )


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
                {"name": unit.name, "cells": changes_of(unit.before, unit.after)}
                for unit in change.units
            ],
        }
        for change in quota_changes.list_changes(
            visible=visible, pool_name=tree.pool.name, at_most=CHANGES_SHOWN
        )
    ]
