"""Opening a workspace from its page: a ticket, posted by the browser to the workspaces' own address."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from access.sessions import mark_of
from dashboard import problems, workspace_door
from dashboard.views import signed_in
from scheduler.operations import workspaces as operations
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import NotFound
from scheduler.queries import workspaces


@login_required
@require_POST
@never_cache
def open_workspace(request: HttpRequest, workload_id: int) -> HttpResponse:
    """Answer with the ticket in a form that goes to the workspaces' host by itself."""
    authority = signed_in.authority(request)
    found = workspaces.find_workspace(
        visible=signed_in.visible_to(request), workload_id=workload_id
    )
    if found is None:
        raise Http404
    if not settings.WORKSPACE_URL:
        messages.error(
            request, _("Workspaces have no address of their own: TIDEGATE_WORKSPACE_URL.")
        )
        return redirect("workload", workload_id)
    try:
        operations.note_opened(workload_id=workload_id, authority=authority, now=timezone.now())
    except NotFound as missing:
        raise Http404 from missing
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
        return redirect("workload", workload_id)
    guest = workspace_door.Guest(
        user_id=request.user.pk or 0,
        session_mark=mark_of(request.session.session_key or ""),
        workload_id=workload_id,
    )
    address = workspace_door.address_of(workload_id)
    answer = render(
        request,
        "dashboard/workspace_open.html",
        {
            "name": found.name,
            "address": f"{address}~enter",
            "ticket": workspace_door.ticket_of(guest),
        },
    )
    origin = urlsplit(address)
    answer._csp_update = {"form-action": [f"{origin.scheme}://{origin.netloc}"]}  # type: ignore[attr-defined]
    return answer
