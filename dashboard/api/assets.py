"""Assets: data sources, environments, credentials and templates, defined once in a scope."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import BinaryIO, cast

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema
from ninja.files import UploadedFile
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from dashboard.api import conditions, lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict, WorkIn
from scheduler.core.vocabulary import AssetKind, SourceType
from scheduler.operations import asset_files
from scheduler.operations import assets as operations
from scheduler.operations.asset_definitions import MAX_TIMEOUT_S, SOURCE_FIELDS
from scheduler.operations.refused import NotFound, Problem, SubmitRefused
from scheduler.queries import assets as queries

router = Router(tags=["Assets"])


class AssetOut(Schema):
    """One definition and its scope; neither project nor department: the whole cluster.

    Of a credential the names of its values are told (``definition.names``), never a value.
    """

    id: int
    kind: AssetKind
    name: str
    description: str
    project_id: int | None
    project: str
    department_id: int | None
    department: str
    definition: dict[str, object]
    version: int
    updated_at: datetime
    used_by: int

    @staticmethod
    def of(row: queries.AssetRow) -> AssetOut:
        """Return a row as it is answered."""
        return AssetOut(
            id=row.id,
            kind=row.kind,
            name=row.name,
            description=row.description,
            project_id=row.project_id,
            project=row.project_name,
            department_id=row.department_id,
            department=row.department_name,
            definition=dict(row.definition),
            version=row.version,
            updated_at=row.updated_at,
            used_by=row.used_by,
        )


class UseOut(Schema):
    """One workload that names the asset."""

    workload_id: int
    name: str
    project_name: str
    phase: str


class AssetDetailOut(AssetOut):
    """One asset with the work of one's scope that names it."""

    uses: list[UseOut]


class SourceIn(Strict):
    """Where data lie. What the type does not use is left out."""

    type: SourceType
    digest: str = Field("", max_length=80, description="tree: what the upload was answered with.")
    url: str = Field("", max_length=500, description="git")
    revision: str = Field("", max_length=200, description="git")
    endpoint: str = Field("", max_length=500, description="s3")
    bucket: str = Field("", max_length=63, description="s3")
    folder: str = Field("", max_length=500, description="s3")
    server: str = Field("", max_length=253, description="nfs")
    path: str = Field("", max_length=500, description="host_path and nfs")
    credential_id: lists.Id | None = Field(None, description="git and s3: fetched with it.")

    def definition(self) -> dict[str, object]:
        """Return what the type uses, and nothing else."""
        found: dict[str, object] = {
            "type": self.type.value,
            **{name: getattr(self, name).strip() for name in SOURCE_FIELDS[self.type]},
        }
        if self.type in (SourceType.GIT, SourceType.S3):
            found["credential_id"] = self.credential_id
        return found


class EnvironmentIn(Strict):
    """How work is started, where its submission does not say it."""

    command: list[str] = Field([], max_length=1000)
    env: dict[str, str] = Field({}, max_length=500)
    working_dir: str = Field("", max_length=200)
    readiness_path: str = Field("", max_length=200)
    start_timeout_s: int = Field(600, ge=1, le=MAX_TIMEOUT_S)


class ContentIn(Strict):
    """What an asset says: the one of these that is of its kind."""

    name: str = Field(max_length=63)
    description: str = Field("", max_length=300)
    source: SourceIn | None = None
    environment: EnvironmentIn | None = None
    secrets: dict[str, str] | None = Field(
        None, max_length=100, description="Of a credential; left out in a change: as they are."
    )
    template: WorkIn | None = None

    def draft(self, kind: AssetKind) -> operations.AssetDraft:
        """Return it as the operations take it.

        Raises:
            SubmitRefused: what it says is of another kind.
        """
        said = {
            AssetKind.SOURCE: self.source,
            AssetKind.ENVIRONMENT: self.environment,
            AssetKind.CREDENTIAL: self.secrets,
            AssetKind.TEMPLATE: self.template,
        }
        own = said.pop(kind)
        if any(each is not None for each in said.values()):
            raise SubmitRefused([_other_kind(kind)])
        if own is None and kind is not AssetKind.CREDENTIAL:
            raise SubmitRefused([_other_kind(kind)])
        return operations.AssetDraft(
            name=self.name,
            description=self.description,
            definition=_definition(own),
            secrets=self.secrets,
        )


class AssetIn(ContentIn):
    """A new asset of a project, of a department, or of the whole cluster where neither is given."""

    kind: AssetKind
    project_id: lists.Id | None = None
    department_id: lists.Id | None = None


class FilesOut(Schema):
    """Files that were kept; ``digest`` is what a source of the type tree names."""

    digest: str
    files: int
    bytes: int


@router.get("", response={200: lists.Page[AssetOut], **READS}, summary="List assets")
def list_assets(
    request: HttpRequest,
    kind: AssetKind | None = param.Query(None),
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[AssetOut]:
    """The cluster's first, then departments', then projects', by name."""
    found = queries.list_assets(visible=who(request).visible, kind=kind)
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[AssetOut](
        items=[AssetOut.of(row) for row in rows], next=following, total=len(found)
    )


@router.post("", response={201: AssetDetailOut, **WRITES}, summary="Define an asset")
def create_asset(request: HttpRequest, given: AssetIn) -> Status[AssetDetailOut]:
    """``source``, ``environment``, ``secrets`` or ``template``: the one of its kind."""
    made = operations.create_asset(
        kind=given.kind,
        draft=given.draft(given.kind),
        project_id=given.project_id,
        department_id=given.department_id,
        authority=who(request).authority,
        now=timezone.now(),
    )
    return Status(201, _out(_find(request, made.pk)))


@router.post("/files", response={201: FilesOut, **WRITES}, summary="Upload files")
def upload(
    request: HttpRequest,
    files: list[UploadedFile] = param.File(..., description="One archive alone is unpacked."),
    project_id: lists.Id | None = param.Query(None),
    department_id: lists.Id | None = param.Query(None),
) -> Status[FilesOut]:
    """Kept once by their content, and for a day where no source names them. The scope is for rights."""
    operations.require_may_define(
        project_id=project_id, department_id=department_id, authority=who(request).authority
    )
    streams = [(str(each.name), cast(BinaryIO, each)) for each in files]
    tree = asset_files.keep_files(files=streams)
    return Status(201, FilesOut(digest=tree.name, files=tree.files, bytes=tree.size_bytes))


@router.get("/{asset_id}", response={200: AssetDetailOut, **READS}, summary="One asset")
def asset(request: HttpRequest, response: HttpResponse, asset_id: lists.Id) -> AssetDetailOut:
    """With who uses it. The ETag changes with each change."""
    found = _find(request, asset_id)
    response["ETag"] = _etag(found)
    return _out(found)


@router.put("/{asset_id}", response={200: AssetDetailOut, **WRITES}, summary="Change an asset")
def change_asset(
    request: HttpRequest,
    response: HttpResponse,
    asset_id: lists.Id,
    given: ContentIn,
    if_match: str = param.Header("", alias="If-Match", max_length=200),
) -> AssetDetailOut:
    """For what is submitted from now on; work that names it keeps its own copy."""
    before = _find(request, asset_id)
    conditions.require_match(_etag(before), given=if_match)
    operations.change_asset(
        asset_id=asset_id,
        version=before.row.version,
        draft=given.draft(before.row.kind),
        authority=who(request).authority,
        now=timezone.now(),
    )
    found = _find(request, asset_id)
    response["ETag"] = _etag(found)
    return _out(found)


@router.delete("/{asset_id}", response={204: None, **WRITES}, summary="Delete an asset")
def delete_asset(request: HttpRequest, asset_id: lists.Id) -> Status[None]:
    """Work that names it goes on with the copy that it has."""
    operations.delete_asset(asset_id=asset_id, authority=who(request).authority, now=timezone.now())
    return Status(204, None)


def _find(request: HttpRequest, asset_id: int) -> queries.AssetDetail:
    found = queries.read_asset(visible=who(request).visible, asset_id=asset_id)
    if found is None:
        raise NotFound("asset")
    return found


def _out(found: queries.AssetDetail) -> AssetDetailOut:
    return AssetDetailOut(
        **AssetOut.of(found.row).model_dump(), uses=[UseOut.from_orm(use) for use in found.uses]
    )


def _etag(found: queries.AssetDetail) -> str:
    return conditions.etag("asset", found.row.id, found.row.version)


def _definition(said: object) -> dict[str, object]:
    match said:
        case SourceIn():
            return said.definition()
        case EnvironmentIn():
            return said.model_dump()
        case WorkIn():
            kept = {**asdict(said.submission(name="")), "name": ""}
            return {"submission": kept, "scaling": asdict(said.as_scaling())}
        case _:
            return {}


def _other_kind(kind: AssetKind) -> Problem:
    field = "secrets" if kind is AssetKind.CREDENTIAL else kind.value
    return Problem(
        field=field,
        code="asset_of_other_kind",
        message=f"This is a {kind.value}: say {field}, and nothing of the other kinds.",
        params={"field": field},
    )
