"""What people do with money: set budgets, close months; and what the product notes of both."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Max

from scheduler import models
from scheduler.core.vocabulary import Level
from scheduler.operations import audit, notices
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import Problem, StateRefused
from scheduler.operations.unit_rows import find_department, find_project

#: Percent of a budget at which people are told.
WARN_AT = (50, 80, 100)
#: A month's name.
MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])")
MOST = Decimal("999999999999.99")
Line = Mapping[str, object]


@transaction.atomic
def set_budget(
    *, level: Level, unit_id: int, monthly: Decimal | None, authority: Authority, now: datetime
) -> None:
    """Set what a department or project may cost a month; None takes the budget away.

    Raises:
        NotFound: the unit is not there for the caller.
        NotPermitted: not who may change its guarantee.
        StateRefused: an amount that is none.
    """
    unit = find_unit(level, unit_id, authority)
    if monthly is not None and not 0 < monthly <= MOST:
        raise StateRefused(
            [
                Problem(
                    field="monthly",
                    code="bad_amount",
                    message=f"Give an amount above 0, at most {MOST:,}.",
                    params={"most": f"{MOST:,}"},
                )
            ]
        )
    place: dict[str, Any] = {level.value: unit}
    held = models.Budget.objects.filter(**place).first()
    before = None if held is None else str(held.monthly)
    if monthly is None:
        models.Budget.objects.filter(**place).delete()
    else:
        models.Budget.objects.update_or_create(
            **place,
            defaults={
                "monthly": monthly,
                "warned_month": "",
                "warned_percent": 0,
                "spent_permille": None,
                "spent_at": None,
            },
        )
    audit.record(
        authority=authority,
        now=now,
        action="budget.set",
        target=unit,
        before={"monthly": before},
        after={"monthly": None if monthly is None else str(monthly)},
    )


def note_spent(*, budget_id: int, permille: int, now: datetime) -> None:
    """Write down what the running month has spent of a budget, in thousandths, for the alert rules."""
    models.Budget.objects.filter(pk=budget_id).update(spent_permille=permille, spent_at=now)


@transaction.atomic
def warn(
    *,
    budget_id: int,
    month: str,
    percent: int,
    told: Mapping[str, object],
    usernames: Sequence[str],
    now: datetime,
) -> bool:
    """Tell people once a month that so many percent of a budget are spent. False: they were told.

    ``percent`` is one of ``WARN_AT``, ``told`` the places of the sentence.
    """
    budget = models.Budget.objects.select_for_update().filter(pk=budget_id).first()
    if budget is None:
        return False
    if budget.warned_month == month and budget.warned_percent >= percent:
        return False
    budget.warned_month, budget.warned_percent = month, percent
    budget.save(update_fields=["warned_month", "warned_percent"])
    for name in usernames:
        notices.tell(
            username=name, code="budget_reached", params={**told, "percent": percent}, now=now
        )
    return True


def require_closer(authority: Authority) -> None:
    """Let only those pass who may close a month.

    Raises:
        NotPermitted: only system admins.
    """
    if not authority.may(Action.NODES):
        raise NotPermitted(
            "Only a system admin may close a month. Ask one.", code="months_are_for_admins"
        )


@transaction.atomic
def close_month(
    *,
    month: str,
    zone: str,
    lines: Sequence[Line],
    corrections: Sequence[Line],
    authority: Authority,
    now: datetime,
) -> int:
    """Freeze a month's statement; return its number. Numbers rise with the months.

    Raises:
        NotPermitted: only system admins.
        StateRefused: no month, or it or a later one is closed.
    """
    require_closer(authority)
    cluster = models.Cluster.objects.locked()
    if not MONTH.fullmatch(month):
        raise StateRefused(
            [Problem(field="month", code="bad_month", message="Give a month such as 2026-11.")]
        )
    if models.Statement.objects.filter(month__gte=month).exists():
        raise StateRefused(
            [
                Problem(
                    field="month",
                    code="month_closed",
                    message=f"{month} or a later month is closed already.",
                    params={"month": month},
                )
            ]
        )
    last = models.Statement.objects.aggregate(last=Max("number"))["last"] or 0
    made = models.Statement.objects.create(
        number=last + 1,
        month=month,
        zone=zone,
        currency=cluster.currency,
        closed_at=now,
        closed_by=authority.name,
        lines=list(lines),
        corrections=list(corrections),
    )
    audit.record(
        authority=authority,
        now=now,
        action="month.close",
        target=made,
        after={"month": month, "number": made.number},
    )
    return made.number


def find_unit(
    level: Level, unit_id: int, authority: Authority
) -> models.Department | models.Project:
    """Return the unit whose budget the caller may set.

    Raises:
        NotFound: it is not there for the caller.
        NotPermitted: not who may change its guarantee.
    """
    if level is Level.DEPARTMENT:
        department = find_department(department_id=unit_id, authority=authority)
        if not authority.may(Action.DEPARTMENT_QUOTA, department_id=unit_id):
            raise NotPermitted(
                f"You may not set the budget of {department.name}. Ask an admin.",
                code="budgets_are_for_admins",
                params={"name": department.name},
                target=department,
            )
        return department
    project = find_project(project_id=unit_id, authority=authority)
    if not authority.may(Action.PROJECT_QUOTA, department_id=project.department_id):
        raise NotPermitted(
            f"You may not set the budget of {project.name}. Ask an admin.",
            code="budgets_are_for_admins",
            params={"name": project.name},
            target=project,
        )
    return project
