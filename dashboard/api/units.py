"""Departments and projects: list, make, rename, move, delete."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict
from scheduler.operations import units as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import unit_rows as queries

router = Router(tags=["Departments and projects"])


class DepartmentOut(Schema):
    """A department."""

    id: int
    name: str


class ProjectOut(Schema):
    """A project. ``color``: 1 to 8, its hue on the map."""

    id: int
    name: str
    department_id: int
    color: int


class DepartmentIn(Strict):
    """A department's name."""

    name: str = Field(max_length=63)


class ProjectIn(Strict):
    """A new project."""

    name: str = Field(max_length=63)
    department_id: lists.Id


class ProjectChangeIn(Strict):
    """What changes of a project; what is left out stays."""

    name: str | None = Field(None, max_length=63)
    department_id: lists.Id | None = None
    color: int | None = Field(None, ge=1, le=8)


@router.get(
    "/departments", response={200: lists.Page[DepartmentOut], **READS}, summary="List departments"
)
def list_departments(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[DepartmentOut]:
    """By id; who sees a project sees its department's name."""
    found = queries.list_departments(visible=who(request).visible)
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[DepartmentOut](
        items=[DepartmentOut.from_orm(row) for row in rows], next=following, total=len(found)
    )


@router.post("/departments", response={201: DepartmentOut, **WRITES}, summary="Make a department")
def create_department(request: HttpRequest, given: DepartmentIn) -> Status[DepartmentOut]:
    """Without any quota yet."""
    made = operations.create_department(
        name=given.name, authority=who(request).authority, now=timezone.now()
    )
    return Status(201, DepartmentOut(id=made.pk, name=made.name))


@router.patch(
    "/departments/{department_id}",
    response={200: DepartmentOut, **WRITES},
    summary="Rename a department",
)
def change_department(
    request: HttpRequest, department_id: lists.Id, given: DepartmentIn
) -> DepartmentOut:
    """Its hours go on under the new name."""
    made = operations.change_department(
        department_id=department_id,
        name=given.name,
        authority=who(request).authority,
        now=timezone.now(),
    )
    return DepartmentOut(id=made.pk, name=made.name)


@router.delete(
    "/departments/{department_id}", response={204: None, **WRITES}, summary="Delete a department"
)
def delete_department(request: HttpRequest, department_id: lists.Id) -> Status[None]:
    """One without projects. Its hours stay in the ledger."""
    operations.delete_department(
        department_id=department_id, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)


@router.get("/projects", response={200: lists.Page[ProjectOut], **READS}, summary="List projects")
def list_projects(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[ProjectOut]:
    """By id."""
    found = queries.list_projects(visible=who(request).visible)
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[ProjectOut](
        items=[ProjectOut.from_orm(row) for row in rows], next=following, total=len(found)
    )


@router.post("/projects", response={201: ProjectOut, **WRITES}, summary="Make a project")
def create_project(request: HttpRequest, given: ProjectIn) -> Status[ProjectOut]:
    """Without any quota yet."""
    made = operations.create_project(
        department_id=given.department_id,
        name=given.name,
        authority=who(request).authority,
        now=timezone.now(),
    )
    return Status(201, _project(request, made.pk))


@router.patch(
    "/projects/{project_id}", response={200: ProjectOut, **WRITES}, summary="Change a project"
)
def change_project(
    request: HttpRequest, project_id: lists.Id, given: ProjectChangeIn
) -> ProjectOut:
    """Rename, recolor or move it; to move it one needs the right in both departments."""
    found = _project(request, project_id)
    operations.change_project(
        project_id=project_id,
        name=found.name if given.name is None else given.name,
        color=found.color if given.color is None else given.color,
        department_id=found.department_id if given.department_id is None else given.department_id,
        authority=who(request).authority,
        now=timezone.now(),
    )
    return _project(request, project_id)


@router.delete("/projects/{project_id}", response={204: None, **WRITES}, summary="Delete a project")
def delete_project(request: HttpRequest, project_id: lists.Id) -> Status[None]:
    """One in which nothing runs or waits. Its hours stay in the ledger."""
    operations.delete_project(
        project_id=project_id, authority=who(request).authority, now=timezone.now()
    )
    return Status(204, None)


def _project(request: HttpRequest, project_id: int) -> ProjectOut:
    rows = queries.list_projects(visible=who(request).visible)
    found = next((row for row in rows if row.id == project_id), None)
    if found is None:
        raise NotFound("project")
    return ProjectOut.from_orm(found)
