"""What would become of the submission in the form, answered while one types."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_POST

from dashboard import problems
from dashboard.views import signed_in
from dashboard.views.submit import typed_so_far
from scheduler.operations import hypothetical, workloads
from scheduler.operations.authority import NotPermitted
from scheduler.queries import what_if

#: What the scheduler looks at. A command or a name may still be missing.
DECIDING = (
    "project",
    "pool",
    "kind",
    "gpu",
    "gpu_memory_mib",
    "min_replicas",
    "max_replicas",
    "priority",
    "preemptible",
)


@login_required
@require_POST
def outlook(request: HttpRequest) -> HttpResponse:
    """Answer what the next cycle would do with what the form holds. Nothing is written."""
    form, pool = typed_so_far(request)
    wrong = [form[name] for name in DECIDING if name in form.errors]
    if wrong:
        return _answer(request, {"wrong": wrong})
    submission, project_id = form.submission, form.cleaned_data["project"]
    try:
        workloads.require_may_try(
            project_id=project_id, kind=submission.kind, authority=signed_in.authority(request)
        )
    except NotPermitted as refused:
        return _answer(request, {"refused": problems.refusal(refused)})
    now = timezone.now()
    found = what_if.preview_submission(
        visible=signed_in.visible_to(request),
        pool_id=pool.id,
        asked=hypothetical.as_asked(
            submission=submission, scaling=form.scaling, project_id=project_id, now=now
        ),
        now=now,
    )
    if found is None:
        raise Http404
    return _answer(request, {"found": found, "at": now})


def _answer(request: HttpRequest, context: dict[str, object]) -> HttpResponse:
    return render(request, "dashboard/partials/_outlook.html", context)
