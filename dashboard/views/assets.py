"""Assets: data sources, environments, credentials and templates, defined once in a scope."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard import problems, words
from dashboard.forms.asset import FORMS, AssetForm, SourceForm
from dashboard.views import signed_in
from scheduler.core.vocabulary import AssetKind, SourceType
from scheduler.operations import asset_files
from scheduler.operations import assets as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import assets as queries
from scheduler.queries.assets import AssetDetail


@login_required
@require_GET
def assets(request: HttpRequest) -> HttpResponse:
    """Answer what is defined, one kind at a time; the kind stands in the address."""
    visible = signed_in.visible_to(request)
    kind = _kind(request.GET.get("kind", ""))
    counts = queries.count_assets(visible=visible)
    return render(
        request,
        "dashboard/assets.html",
        {
            "kind": kind,
            "tabs": [(each, words.asset_kinds_name(each), counts[each]) for each in AssetKind],
            "rows": queries.list_assets(visible=visible, kind=kind),
            "may_define": bool(_scopes(request)),
        },
    )


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def new(request: HttpRequest) -> HttpResponse:
    """Show the form of a kind, or define what it holds."""
    kind = _kind(request.GET.get("kind", ""))
    scopes = _scopes(request)
    if not scopes or kind is AssetKind.TEMPLATE:
        raise Http404
    given = (request.POST, request.FILES) if request.method == "POST" else ()
    form = FORMS[kind](*given, scopes=scopes, **_more(request, kind))
    if request.method == "POST" and form.is_valid():
        try:
            _keep_files(request, form)
            project_id, department_id = form.scope_ids()
            made = operations.create_asset(
                kind=kind,
                draft=form.draft,
                project_id=project_id,
                department_id=department_id,
                authority=signed_in.authority(request),
                now=timezone.now(),
            )
        except NotFound as error:
            raise Http404 from error
        except (Refused, NotPermitted) as refused:
            _tell(form, refused)
        else:
            messages.success(request, _("{name} is defined.").format(name=made.name))
            return redirect("asset", made.pk)
    return render(request, "dashboard/asset_new.html", {"kind": kind, "form": form})


@login_required
@require_http_methods(["GET", "POST"])
@never_cache
def asset(request: HttpRequest, asset_id: int) -> HttpResponse:
    """Answer one asset with who uses it; a post changes it for what is submitted from now on."""
    detail = _find(request, asset_id)
    row, may_change = detail.row, _may_change(request, detail)
    given = (request.POST, request.FILES) if request.method == "POST" else ()
    form = FORMS[row.kind](*given, scopes=(), row=row, **_more(request, row.kind, detail=detail))
    if request.method == "POST" and form.is_valid():
        try:
            _keep_files(request, form, kept=dict(row.definition))
            operations.change_asset(
                asset_id=row.id,
                version=_version(request, row.version),
                draft=form.draft,
                authority=signed_in.authority(request),
                now=timezone.now(),
            )
        except NotFound as error:
            raise Http404 from error
        except (Refused, NotPermitted) as refused:
            _tell(form, refused)
        else:
            messages.success(
                request,
                _("{name} is changed; work that was submitted before keeps what it had.").format(
                    name=form.cleaned_data["name"]
                ),
            )
            return redirect("asset", row.id)
    return render(
        request,
        "dashboard/asset.html",
        {
            "detail": detail,
            "facts": words.asset_facts(row.kind, row.definition),
            "form": form,
            "may_change": may_change,
        },
    )


@login_required
@require_POST
def delete(request: HttpRequest, asset_id: int) -> HttpResponse:
    """Take an asset away."""
    detail = _find(request, asset_id)
    try:
        operations.delete_asset(
            asset_id=asset_id, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        messages.error(request, problems.refusal(refused))
        return redirect("asset", asset_id)
    except Refused as refused:
        for problem in refused.problems:
            messages.error(request, problems.in_words(problem))
        return redirect("asset", asset_id)
    said = _("{name} is deleted; work that was submitted before keeps what it had.")
    messages.success(request, said.format(name=detail.row.name))
    return redirect_to_kind(detail.row.kind)


def redirect_to_kind(kind: AssetKind) -> HttpResponse:
    """Answer with the list of a kind."""
    answer = redirect("assets")
    answer["Location"] += f"?kind={kind.value}"
    return answer


def _kind(text: str) -> AssetKind:
    return AssetKind(text) if text in set(AssetKind) else AssetKind.SOURCE


def _find(request: HttpRequest, asset_id: int) -> AssetDetail:
    detail = queries.read_asset(visible=signed_in.visible_to(request), asset_id=asset_id)
    if detail is None:
        raise Http404
    return detail


def _scopes(request: HttpRequest) -> list[tuple[str, str]]:
    """Return where the caller may define assets, the narrowest first: few need the whole cluster."""
    authority = signed_in.authority(request)
    found = []
    for scope in reversed(queries.list_scopes(visible=signed_in.visible_to(request))):
        ids = {"project_id": scope.project_id, "department_id": scope.department_id}
        if not authority.may(Action.ASSETS, **ids):
            continue
        if scope.project_id is not None:
            found.append((f"project-{scope.project_id}", _("project {name}")))
        elif authority.sees_department(department_id=scope.department_id):
            found.append((f"department-{scope.department_id}", _("department {name}")))
        else:
            continue
        found[-1] = (found[-1][0], found[-1][1].format(name=scope.name))
    found.sort(key=lambda pair: (pair[0].startswith("department"), pair[1]))
    if authority.may(Action.ASSETS):
        found.append(("cluster", _("the whole cluster")))
    return found


def _may_change(request: HttpRequest, detail: AssetDetail) -> bool:
    authority, row = signed_in.authority(request), detail.row
    is_path = row.definition.get("type") in (SourceType.HOST_PATH, SourceType.NFS)
    return authority.may(
        Action.ASSETS, project_id=row.project_id, department_id=detail.above_department_id
    ) and (not is_path or authority.may(Action.NODES))


def _more(
    request: HttpRequest, kind: AssetKind, *, detail: AssetDetail | None = None
) -> dict[str, Any]:
    """Return what only the form of this kind takes."""
    if kind is AssetKind.TEMPLATE and detail is not None:
        return {"kept": detail.row.definition}
    if kind is not AssetKind.SOURCE:
        return {}
    rows = queries.list_assets(visible=signed_in.visible_to(request), kind=AssetKind.CREDENTIAL)
    return {"credentials": [(str(row.id), words.asset_in_scope(row)) for row in rows]}


def _keep_files(
    request: HttpRequest, form: AssetForm, *, kept: dict[str, object] | None = None
) -> None:
    """Keep what was uploaded; nothing new leaves what there was."""
    if not isinstance(form, SourceForm) or form.cleaned_data["type"] != SourceType.TREE:
        return
    files = form.cleaned_data["upload"]
    if not files:
        form.kept = {k: v for k, v in (kept or {}).items() if k in ("digest", "files", "bytes")}
        return
    tree = asset_files.keep_files(files=[(str(file.name), file) for file in files])
    form.kept = {"digest": tree.name, "files": tree.files, "bytes": tree.size_bytes}


def _version(request: HttpRequest, now: int) -> int:
    text = request.POST.get("version", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else now


def _tell(form: AssetForm, refused: Refused | NotPermitted) -> None:
    if isinstance(refused, NotPermitted):
        form.add_error(None, problems.refusal(refused))
        return
    for problem in refused.problems:
        field = problem.field if problem.field in form.fields else None
        form.add_error(field, problems.in_words(problem))
        if field is not None:
            form.fields[field].widget.attrs["aria-invalid"] = "true"
