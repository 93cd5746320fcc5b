"""A draft of quotas replayed over the last days: ask for it, follow it, read both runs side by side."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from dashboard import problems
from dashboard.views import quota_editor, signed_in
from dashboard.views.numbers import optional_int
from scheduler.operations.authority import NotPermitted
from scheduler.operations.quota_replays import ask_replay
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries.quota_replays import find_replay


@login_required
@require_POST
def ask(request: HttpRequest) -> HttpResponse:
    """Have the draft played over the last days, and lead to where it can be followed."""
    if getattr(
        request, "htmx", False
    ):  # the preview of the last key, sent as the button was pressed
        return quota_editor.preview(request)
    draft = quota_editor.draft_of(request)
    if draft.mistakes:
        said = [_("Put the draft right first, then replay it.")]
        return quota_editor.show(request, draft, said=said)
    try:
        made = ask_replay(
            pool_id=draft.tree.pool.id,
            days=optional_int(request.POST.get("days")) or 0,
            edits=draft.edits,
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        return quota_editor.show(request, draft, said=[problems.refusal(refused)])
    except Refused as refused:
        said = [problems.in_words(each) for each in refused.problems]
        return quota_editor.show(request, draft, said=said)
    return redirect("quota_replay", made.pk)


@login_required
@require_GET
def replay(request: HttpRequest, replay_id: int) -> HttpResponse:
    """Answer one replay: how far it is, or its figures."""
    found = find_replay(
        visible=signed_in.visible_to(request),
        username=signed_in.user_of(request).get_username(),
        replay_id=replay_id,
        now=timezone.now(),
    )
    if found is None:
        raise Http404
    is_part = getattr(request, "htmx", False)
    template = "partials/_quota_replay.html" if is_part else "quota_replay.html"
    return render(request, f"dashboard/{template}", {"replay": found})
