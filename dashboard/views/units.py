"""The page of one department or project."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from access.listing import list_members
from dashboard import live_wire
from dashboard.views import signed_in
from reports.money import BudgetLine, budget_lines
from reports.unit_now import tell_now
from reports.unit_page import make_unit_page
from scheduler.core.vocabulary import Level
from scheduler.operations.authority import Action, Authority
from scheduler.queries import former_names, idle_holdings, units, usage_names, workloads
from scheduler.queries.overview import read_overview
from scheduler.queries.pool_state import list_pools
from scheduler.queries.quota_tree import read_quota_tree
from scheduler.queries.surplus import find_shares
from scheduler.queries.units import UnitRow
from scheduler.queries.visibility import Visibility

#: Of the unit's work so many are listed; the list of workloads has all.
WORK_SHOWN = 12


@login_required
@require_GET
def project(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer a project's page."""
    return _page(request, Level.PROJECT, slug)


@login_required
@require_GET
def department(request: HttpRequest, slug: str) -> HttpResponse:
    """Answer a department's page."""
    return _page(request, Level.DEPARTMENT, slug)


def _page(request: HttpRequest, level: Level, slug: str) -> HttpResponse:
    visible, now = signed_in.visible_to(request), timezone.now()
    unit = units.find_unit(visible=visible, level=level, slug=slug)
    if unit is None:
        raise Http404
    page = make_unit_page(
        visible=visible, unit=unit, zone=timezone.get_current_timezone_name(), now=now
    )
    context = {
        "unit": unit,
        "former": [
            name
            for name, _until in former_names.read_former_names().get((level, unit.id), ())
            if name != unit.name
        ],
        "page": page,
        "budget": _budget(visible, unit, now),
        "currency": usage_names.read_cluster_facts().currency,
    }
    if unit.deleted_at is None:
        context |= _as_it_is_now(request, visible, unit, now)
    return render(request, "reports/unit.html", context)


def _budget(visible: Visibility, unit: UnitRow, now: datetime) -> BudgetLine | None:
    return next(
        (
            line
            for line in budget_lines(visible=visible, now=now)
            if line.unit.level is unit.level and line.unit.unit_id == unit.id and line.unit.monthly
        ),
        None,
    )


def _may_change(authority: Authority, unit: UnitRow) -> bool:
    """Test whether the reader changes the unit's quota: in the quota editor, not here."""
    if unit.level is Level.DEPARTMENT:
        return authority.may(Action.DEPARTMENT_QUOTA, department_id=unit.id)
    return authority.may(Action.PROJECT_QUOTA, project_id=unit.id, department_id=unit.department_id)


def _as_it_is_now(
    request: HttpRequest, visible: Visibility, unit: UnitRow, now: datetime
) -> dict[str, object]:
    """Return what a unit holds now in one pool, its work, its people and its rules."""
    pools = list_pools(visible=visible)
    found = read_overview(visible=visible, pool_name=request.GET.get("pool", ""), now=now)
    is_project = unit.level is Level.PROJECT
    of_unit = replace(
        visible,
        cluster=False,
        project_ids=frozenset({unit.id} if is_project else ()),
        department_ids=frozenset() if is_project else frozenset({unit.id}),
    )
    rules = next(
        (
            row
            for row in idle_holdings.list_rules(visible=of_unit)
            if row.id == unit.id and row.is_department != is_project
        ),
        None,
    )
    context: dict[str, object] = {
        "view_only": not _may_change(signed_in.authority(request), unit),
        "pools": pools,
        "rules": rules,
        "members": list_members(
            authority=signed_in.authority(request),
            project_id=unit.id if is_project else None,
            department_id=unit.department_id,
        ),
    }
    if found is None:
        return context
    tree = read_quota_tree(visible=visible, pool_name=found.pool.name)
    wire = live_wire.overview_to_wire(found)
    state = {"parts": {"quota": wire["quota"]}, "at": int(now.timestamp() * 1000)}
    work = workloads.WorkloadFilter(limit=WORK_SHOWN, living=True)
    return context | {
        "pool": found.pool,
        "now": tell_now(unit=unit, rows=found.tree.rows),
        "page_state": state | {"cycle": found.cycle},
        "share": find_shares(tree).get((unit.level, unit.id)) if tree else None,
        "work": workloads.list_workloads(visible=of_unit, pool_name=found.pool.name, wanted=work),
    }
