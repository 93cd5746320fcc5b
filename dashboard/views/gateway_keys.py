"""Gateway keys: made, changed and revoked, and what was used through them by key, model and team."""

from __future__ import annotations

from datetime import timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from dashboard import problems
from dashboard.forms.service import KeyForm, KeyTermsForm
from dashboard.views import signed_in
from scheduler.operations import gateway_keys as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import gateway_keys as queries
from scheduler.queries import workloads as workload_queries
from scheduler.queries.services import read_service

#: A key that a page lends itself ends after this long.
LENT_FOR = timedelta(hours=1)


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def keys(request: HttpRequest) -> HttpResponse:
    """Answer gateway keys with their usage; a post makes one, whose secret is shown this once."""
    scopes = _scopes(request)
    form = KeyForm(request.POST or None, scopes=scopes)
    made = None
    if request.method == "POST" and form.is_valid():
        made = _make(request, form)
        if made is not None:
            form = KeyForm(scopes=scopes)
    visible, now = signed_in.visible_to(request), timezone.now()
    by = _by(request)
    return render(
        request,
        "dashboard/gateway_keys.html",
        {
            "rows": sorted(queries.list_keys(visible=visible, now=now), key=lambda row: row.ended),
            "usage": queries.list_usage(visible=visible, now=now, by=by),
            "by": by.value,
            "ways": [(way.value, name) for way, name in _ways().items()],
            "form": form if scopes else None,
            "made": made,
            "address": request.build_absolute_uri("/v1"),
        },
    )


@login_required
@require_http_methods(["GET", "POST"])
def change_key(request: HttpRequest, key_id: int) -> HttpResponse:
    """Answer one key's limits in a form; a post changes them."""
    key = next((row for row in _rows(request) if row.id == key_id), None)
    if key is None:
        raise Http404
    form = KeyTermsForm(request.POST or None, initial=KeyTermsForm.initial_of(key))
    if request.method == "POST" and form.is_valid() and _change(request, form, key):
        return redirect("gateway_keys")
    return render(request, "dashboard/gateway_key.html", {"key": key, "form": form})


@login_required
@require_POST
def revoke_key(request: HttpRequest, key_id: int) -> HttpResponse:
    """End a key for good."""
    try:
        key = operations.revoke_key(
            key_id=key_id, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
    else:
        messages.success(request, _("{name} is revoked.").format(name=key.name))
    return redirect("gateway_keys")


@login_required
@require_POST
@never_cache
def lend_key(request: HttpRequest, workload_id: int) -> JsonResponse:
    """Make a key for an hour to one service, for the page that asks for it and keeps it to itself."""
    detail = read_service(
        visible=signed_in.visible_to(request), workload_id=workload_id, now=timezone.now()
    )
    if detail is None:
        raise Http404
    now = timezone.now()
    try:
        made = operations.create_key(
            project_id=detail.project_id,
            terms=operations.KeyTerms(
                name=_("playground"),
                allowed_models=detail.row.models,
                expires_at=now + LENT_FOR,
            ),
            authority=signed_in.authority(request),
            now=now,
        )
    except NotPermitted as refused:
        return JsonResponse({"error": {"message": problems.refusal(refused)}}, status=403)
    return JsonResponse({"key": made.secret})


def _ways() -> dict[queries.By, str]:
    return {
        queries.By.ALL: _("Key, project and model"),
        queries.By.KEY: _("Key"),
        queries.By.MODEL: pgettext("served", "Model"),
        queries.By.PROJECT: _("Project"),
        queries.By.DEPARTMENT: _("Department"),
    }


def _by(request: HttpRequest) -> queries.By:
    asked = request.GET.get("by", "")
    return queries.By(asked) if asked in set(queries.By) else queries.By.ALL


def _rows(request: HttpRequest) -> tuple[queries.KeyRow, ...]:
    return queries.list_keys(visible=signed_in.visible_to(request), now=timezone.now())


def _make(request: HttpRequest, form: KeyForm) -> operations.MadeKey | None:
    project_id, department_id = form.scope_ids()
    now = timezone.now()
    try:
        return operations.create_key(
            project_id=project_id,
            department_id=department_id,
            terms=form.terms(now),
            authority=signed_in.authority(request),
            now=now,
        )
    except NotFound as error:
        raise Http404 from error
    except (NotPermitted, Refused) as refused:
        _tell(form, refused)
    return None


def _change(request: HttpRequest, form: KeyTermsForm, key: queries.KeyRow) -> bool:
    now = timezone.now()
    try:
        operations.change_key(
            key_id=key.id,
            terms=form.terms(now, ends=key.expires_at),
            authority=signed_in.authority(request),
            now=now,
        )
    except NotFound as error:
        raise Http404 from error
    except (NotPermitted, Refused) as refused:
        _tell(form, refused)
        return False
    messages.success(request, _("{name} is changed.").format(name=form.cleaned_data["name"]))
    return True


def _tell(form: KeyTermsForm, refused: NotPermitted | Refused) -> None:
    if isinstance(refused, NotPermitted):
        form.add_error(None, problems.refusal(refused))
        return
    for problem in refused.problems:
        field = problem.field if problem.field in form.fields else None
        form.add_error(field, problems.in_words(problem))


def _scopes(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the departments and projects for which the caller may make keys."""
    authority = signed_in.authority(request)
    projects = workload_queries.list_projects(visible=signed_in.visible_to(request))
    departments = {project.department_id: project.department_name for project in projects}
    whole = [
        (f"department-{key}", _("{name}, the whole department").format(name=name))
        for key, name in sorted(departments.items(), key=lambda item: item[1])
        if authority.sees_department(department_id=key)
        and authority.may(Action.SERVE, department_id=key)
    ]
    single = [
        (f"project-{project.id}", project.name)
        for project in projects
        if authority.may(Action.SERVE, project_id=project.id, department_id=project.department_id)
    ]
    return [*single, *whole]
