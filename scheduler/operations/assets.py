"""What people do with assets: define them once in a scope, change them, delete them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db import IntegrityError, transaction

from scheduler import models
from scheduler.core.vocabulary import END_PHASES, AssetKind
from scheduler.operations import asset_definitions, audit, secret_box, submissions
from scheduler.operations.asset_definitions import BY_ADMIN_ONLY
from scheduler.operations.asset_paths import find_path_problems
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, StateRefused, SubmitRefused

MAX_DESCRIPTION = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetDraft:
    """What is asked for. ``secrets``: the values of a credential; None leaves them as they are."""

    name: str
    description: str = ""
    definition: Mapping[str, object] = field(default_factory=dict)
    secrets: Mapping[str, str] | None = field(default=None, repr=False)


@transaction.atomic
def create_asset(
    *,
    kind: AssetKind,
    draft: AssetDraft,
    project_id: int | None = None,
    department_id: int | None = None,
    authority: Authority,
    now: datetime,
    scratch: bool = False,
) -> models.Asset:
    """Define an asset for a project, a department, or the whole cluster where neither is given.

    A ``scratch`` one is a verification's: nobody else sees it, and it goes with the pool of its name.

    Raises:
        NotFound: no such project or department for the caller.
        NotPermitted: the caller may not define assets there, or not of this type.
        SubmitRefused: fields that are wrong, each with the way out.
    """
    asset = models.Asset(
        kind=kind,
        name=draft.name,
        description=draft.description,
        project=_find_project(project_id, authority),
        department=_find_department(department_id, authority),
        definition=_definition(kind, draft),
        created_by=authority.name,
        created_at=now,
        updated_by=authority.name,
        updated_at=now,
        scratch=scratch,
    )
    _require(authority, asset)
    _check(asset, draft, is_new=True)
    if draft.secrets is not None and kind == AssetKind.CREDENTIAL:
        asset.secret = _seal(draft.secrets, now)
    _save(asset)
    audit.record(
        authority=authority, now=now, action="asset.create", target=asset, after=_facts(asset)
    )
    return asset


@transaction.atomic
def change_asset(
    *, asset_id: int, version: int, draft: AssetDraft, authority: Authority, now: datetime
) -> models.Asset:
    """Change an asset for what is submitted from now on; work that names it keeps its own copy.

    Raises:
        NotFound, NotPermitted, SubmitRefused: as for a new one.
        StateRefused: someone else has changed it since ``version``.
    """
    asset = _lock(asset_id, authority)
    _require(authority, asset)
    if asset.version != version:
        raise StateRefused(
            [
                Problem(
                    field="version",
                    code="changed_meanwhile",
                    message=f"{asset.updated_by} has changed {asset.name} since you read it. Look "
                    "at the new values first.",
                    params={"who": asset.updated_by, "name": asset.name},
                )
            ]
        )
    before = _facts(asset)
    asset.name, asset.description = draft.name, draft.description
    asset.definition = _definition(AssetKind(asset.kind), draft, kept=asset.definition)
    _require(authority, asset)
    _check(asset, draft, is_new=False)
    if draft.secrets is not None and asset.kind == AssetKind.CREDENTIAL:
        asset.secret = _seal(draft.secrets, now)
    asset.version += 1
    asset.updated_by, asset.updated_at = authority.name, now
    _save(asset)
    erase_unused_secrets()
    audit.record(
        authority=authority,
        now=now,
        action="asset.change",
        target=asset,
        before=before,
        after={**_facts(asset), "secret_changed": draft.secrets is not None},
    )
    return asset


@transaction.atomic
def delete_asset(*, asset_id: int, authority: Authority, now: datetime) -> models.Asset:
    """Take an asset away. Work that names it goes on, with the copy that it has.

    The values of a credential are erased once the last work that has them has ended.

    Raises:
        NotFound, NotPermitted.
        StateRefused: a credential by which data sources are fetched.
    """
    asset = _lock(asset_id, authority)
    _require(authority, asset)
    if asset.kind == AssetKind.CREDENTIAL:
        _refuse_while_fetched_with(asset)
    asset.deleted_at, asset.updated_by, asset.updated_at = now, authority.name, now
    asset.secret = None
    asset.save()
    erase_unused_secrets()
    audit.record(
        authority=authority, now=now, action="asset.delete", target=asset, before=_facts(asset)
    )
    return asset


def require_may_define(
    *, project_id: int | None, department_id: int | None, authority: Authority
) -> None:
    """Refuse who may not define assets of a scope.

    Raises:
        NotFound, NotPermitted: as for defining one there.
    """
    scope = models.Asset(
        kind=AssetKind.ENVIRONMENT,
        project=_find_project(project_id, authority),
        department=_find_department(department_id, authority),
    )
    _require(authority, scope)


def delete_assets_of(
    *, project: models.Project | None, department: models.Department | None, now: datetime
) -> None:
    """Take away what was defined for a project or a department that is deleted with it."""
    rows = models.Asset.objects.filter(project=project, department=department, deleted_at=None)
    rows.update(deleted_at=now, updated_at=now, secret=None)
    erase_unused_secrets()


def erase_unused_secrets() -> int:
    """Erase old values of credentials that no unfinished work may still need; return how many."""
    current = models.Asset.objects.filter(secret__isnull=False).values("secret_id")
    needed = models.WorkloadAsset.objects.filter(
        secret__isnull=False, workload__deleted_at__isnull=True
    ).exclude(workload__phase__in=END_PHASES)
    unused = (
        models.SealedSecret.objects.exclude(sealed=b"")
        .exclude(pk__in=current)
        .exclude(pk__in=needed.values("secret_id"))
    )
    return unused.update(sealed=b"")


def sees(authority: Authority, asset: models.Asset) -> bool:
    """Test whether an asset exists for a caller: it lies in, or above, something it sees."""
    if asset.project is not None:
        return authority.sees_project(
            project_id=asset.project_id or 0, department_id=asset.project.department_id
        )
    department_id = asset.department_id
    if department_id is None:
        return True
    if authority.sees_department(department_id=department_id):
        return True
    projects = models.Project.objects.filter(department_id=department_id, deleted_at=None)
    return any(
        authority.sees_project(project_id=pk, department_id=department_id)
        for pk in projects.values_list("pk", flat=True)
    )


def _find_project(project_id: int | None, authority: Authority) -> models.Project | None:
    if project_id is None:
        return None
    project = models.Project.objects.filter(pk=project_id, deleted_at=None).first()
    if project is None or not authority.sees_project(
        project_id=project.pk, department_id=project.department_id
    ):
        raise NotFound("project")
    return project


def _find_department(department_id: int | None, authority: Authority) -> models.Department | None:
    if department_id is None:
        return None
    department = models.Department.objects.filter(pk=department_id, deleted_at=None).first()
    if department is None or not authority.sees_department(department_id=department.pk):
        raise NotFound("department")
    return department


def _lock(asset_id: int, authority: Authority) -> models.Asset:
    asset = (
        models.Asset.objects.select_for_update(of=("self",))
        .select_related("project", "department")
        .filter(pk=asset_id, deleted_at=None)
        .first()
    )
    if asset is None or not sees(authority, asset):
        raise NotFound("asset")
    return asset


def _require(authority: Authority, asset: models.Asset) -> None:
    """Ask for the right over the asset's scope, and over machines where it is a path of one."""
    project = asset.project
    department_id = asset.department_id if project is None else project.department_id
    if not authority.may(Action.ASSETS, project_id=asset.project_id, department_id=department_id):
        scope = (project or asset.department or models.Cluster.objects.one()).name
        raise NotPermitted(
            f"Your role may not define or change assets of {scope}. Ask an admin of it.",
            code="assets_view_only",
            target=asset,
            params={"scope": scope},
        )
    is_path = asset.kind == AssetKind.SOURCE and asset.definition.get("type") in BY_ADMIN_ONLY
    if is_path and not authority.may(Action.NODES):
        raise NotPermitted(
            "Paths of machines are offered by system admins, since other people's files lie there. "
            "Upload the files, or ask one.",
            code="paths_by_admin",
            target=asset,
        )


def _definition(
    kind: AssetKind, draft: AssetDraft, *, kept: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return what is kept of a draft: of a credential the names of its values, never the values."""
    if kind != AssetKind.CREDENTIAL:
        return dict(draft.definition)
    if draft.secrets is None:
        return dict(kept or {})
    return {"names": sorted(draft.secrets)}


def _check(asset: models.Asset, draft: AssetDraft, *, is_new: bool) -> None:
    problems = submissions.name_problems(asset.name)
    if len(asset.description) > MAX_DESCRIPTION:
        problems.append(
            Problem(
                field="description",
                code="too_long",
                message=f"Use at most {MAX_DESCRIPTION} characters.",
                params={"most": MAX_DESCRIPTION},
            )
        )
    match AssetKind(asset.kind):
        case AssetKind.SOURCE:
            problems += asset_definitions.find_source_problems(asset.definition)
            problems += find_path_problems(asset.definition)
            problems += _credential_problems(asset)
        case AssetKind.ENVIRONMENT:
            problems += asset_definitions.find_environment_problems(asset.definition)
        case AssetKind.CREDENTIAL:
            if is_new or draft.secrets is not None:
                problems += asset_definitions.find_secret_problems(draft.secrets or {})
        case AssetKind.TEMPLATE:
            problems += _template_problems(asset.definition)
    if problems:
        raise SubmitRefused(problems)


def _credential_problems(asset: models.Asset) -> list[Problem]:
    """Return what is wrong with the credential of a source: it must hold wherever the source does."""
    credential_id = asset.definition.get("credential_id")
    if credential_id is None:
        return []
    found = models.Asset.objects.filter(
        pk=credential_id, kind=AssetKind.CREDENTIAL, deleted_at=None
    ).first()
    if found is not None and _covers(found, asset):
        return []
    return [
        Problem(
            field="credential_id",
            code="no_such_credential",
            message="Choose a credential that holds wherever the data source does.",
        )
    ]


def _covers(outer: models.Asset, inner: models.Asset) -> bool:
    """Test whether the scope of one asset contains that of another."""
    if outer.project_id is not None:
        return outer.project_id == inner.project_id
    if outer.department_id is None:
        return True
    department_id = inner.department_id if inner.project is None else inner.project.department_id
    return outer.department_id == department_id


def _template_problems(definition: Mapping[str, object]) -> list[Problem]:
    kept = definition.get("submission")
    if not isinstance(kept, dict):
        return [
            Problem(
                field="submission", code="empty_template", message="Say what is to be submitted."
            )
        ]
    submission = submissions.from_json({**kept, "name": "template"})
    return submissions.find_problems(submission=submission)


def _seal(secrets: Mapping[str, str], now: datetime) -> models.SealedSecret:
    return models.SealedSecret.objects.create(
        sealed=secret_box.seal(values=secrets), created_at=now
    )


def _save(asset: models.Asset) -> None:
    try:
        with transaction.atomic():
            asset.save()
    except IntegrityError as error:
        raise SubmitRefused(
            [
                Problem(
                    field="name",
                    code="asset_name_taken",
                    message=f"There is one called {asset.name} in this scope already. Choose "
                    "another name.",
                    params={"name": asset.name},
                )
            ]
        ) from error


def _refuse_while_fetched_with(asset: models.Asset) -> None:
    sources = models.Asset.objects.filter(
        kind=AssetKind.SOURCE, deleted_at=None, definition__credential_id=asset.pk
    )
    names = ", ".join(sources.order_by("name").values_list("name", flat=True))
    if names:
        raise StateRefused(
            [
                Problem(
                    field="name",
                    code="credential_needed",
                    message=f"Data sources are fetched with {asset.name}: {names}. Change or delete "
                    "them first.",
                    params={"name": asset.name, "sources": names},
                )
            ]
        )


def _facts(asset: models.Asset) -> dict[str, object]:
    return {
        "kind": asset.kind,
        "name": asset.name,
        "description": asset.description,
        "definition": asset.definition,
    }
