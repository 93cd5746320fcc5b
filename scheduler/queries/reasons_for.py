"""Why a workload waits, for one reader: which queue the reason names, and which figures are the reader's."""

from __future__ import annotations

from scheduler import models
from scheduler.core.vocabulary import Level
from scheduler.queries.reasons import Numbers, Waiting, why_waiting
from scheduler.queries.visibility import Visibility


def why_for(
    *, visible: Visibility, code: str, numbers: Numbers, project: models.Project | None
) -> Waiting:
    """Return the sentences for a reason of a project's workload. Its department is read with it.

    Source of what is told: the figures of the department that blocks one's own request, unless the
    cluster's setting hides what others hold.
    """
    if project is None:
        return why_waiting(code=code, numbers=numbers, queue="", told=visible.tells_others)
    at_department = numbers.get("level") == Level.DEPARTMENT
    return why_waiting(
        code=code,
        numbers=numbers,
        queue=project.department.name if at_department else project.name,
        told=visible.tells_of(project.department_id),
    )
