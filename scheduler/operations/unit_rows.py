"""Departments and projects as they are there for a caller: absent and out of sight are the same."""

from __future__ import annotations

from scheduler import models
from scheduler.operations.authority import Authority
from scheduler.operations.refused import NotFound


def find_department(*, department_id: int, authority: Authority) -> models.Department:
    """Return the department.

    Raises:
        NotFound: it is not there for the caller.
    """
    department = models.Department.objects.filter(pk=department_id, deleted_at=None).first()
    if department is None or not authority.sees_department(department_id=department.pk):
        raise NotFound("department")
    return department


def find_project(*, project_id: int, authority: Authority) -> models.Project:
    """Return the project, with its department.

    Raises:
        NotFound: it is not there for the caller.
    """
    project = (
        models.Project.objects.select_related("department")
        .filter(pk=project_id, deleted_at=None)
        .first()
    )
    if project is None or not authority.sees_project(
        project_id=project.pk, department_id=project.department_id
    ):
        raise NotFound("project")
    return project
