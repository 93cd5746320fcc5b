"""Money: what units may cost and have cost this month, closed months and their statements."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from access.scopes import UserAuthority
from dashboard.forms.kept import Kept, keep_at, keep_posted
from dashboard.problems import refusal
from dashboard.views import signed_in
from reports import csv_export, money
from reports.refused import ReportRefused
from scheduler.core.vocabulary import Level
from scheduler.operations import money as operations
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import money as queries
from scheduler.queries import usage_names


@login_required
@require_GET
def money_page(request: HttpRequest) -> HttpResponse:
    """Answer budgets, the running month and closed months."""
    return _page(request)


@login_required
@require_POST
def set_budget(request: HttpRequest) -> HttpResponse:
    """Set or take away what a unit may cost a month."""
    level, _dash, number = request.POST.get("unit", "").partition("-")
    if level not in tuple(Level) or not (number.isascii() and number.isdigit()):
        raise Http404
    text = request.POST.get("monthly", "").strip().replace(",", "")
    try:
        operations.find_unit(Level(level), int(number), signed_in.authority(request))
        monthly = Decimal(text).quantize(Decimal("0.01")) if text else None
        if monthly is not None and not monthly.is_finite():
            raise InvalidOperation
        operations.set_budget(
            level=Level(level),
            unit_id=int(number),
            monthly=monthly,
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except InvalidOperation:
        return _page(
            request,
            kept=keep_at(
                request,
                "budget",
                "monthly",
                _("{text} is no amount. Write it as 120000 or 120000.50.").format(text=text),
            ),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as error:
        return _page(request, refused=refusal(error), status=403)
    except Refused as error:
        return _page(request, kept=keep_posted(request, "budget", error.problems))
    return redirect("report_money")


@login_required
@require_POST
def close_month(request: HttpRequest) -> HttpResponse:
    """Freeze a month that has ended."""
    month = request.POST.get("month", "").strip()
    try:
        number = money.close(
            month=month, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotPermitted as error:
        return _page(request, refused=refusal(error), status=403)
    except ReportRefused as refused:
        return _page(request, kept=keep_at(request, "close", "month", str(refused)))
    except Refused as error:
        return _page(request, kept=keep_posted(request, "close", error.problems))
    return redirect("report_statement", number=number)


@login_required
@require_GET
def statement(request: HttpRequest, number: int) -> HttpResponse:
    """Answer a closed month as it was closed."""
    found = _find(request, number)
    return render(
        request,
        "reports/statement.html",
        {
            "found": found,
            "cost": money.total(found.lines, "cost"),
            "idle_cost": money.total(found.lines, "idle_cost"),
            "corrected": money.total(found.corrections, "cost"),
        },
    )


@login_required
@require_GET
def statement_csv(request: HttpRequest, number: int) -> HttpResponse:
    """Answer a closed month's CSV."""
    found = _find(request, number)
    response = HttpResponse(
        b"".join(money.statement_csv(statement=found)), content_type="text/csv; charset=utf-8"
    )
    name = f"tidegate-statement-{found.number}-{found.month}.csv"
    response["Content-Disposition"] = csv_export.disposition(name=name)
    return response


def _find(request: HttpRequest, number: int) -> queries.StatementRow:
    found = queries.read_statement(visible=signed_in.visible_to(request), number=number)
    if found is None:
        raise Http404
    return found


def _page(
    request: HttpRequest, *, refused: str = "", kept: Kept | None = None, status: int = 400
) -> HttpResponse:
    visible, now = signed_in.visible_to(request), timezone.now()
    authority = signed_in.authority(request)
    lines = money.budget_lines(visible=visible, now=now)
    facts = usage_names.read_cluster_facts()
    may_close = authority.may(Action.NODES)
    statements = queries.list_statements(visible=visible)
    last_month = money.month_before(money.month_of(now=now, zone=facts.time_zone))
    context = {
        "refused": refused,
        "kept": kept,
        "currency": facts.currency,
        "zone": facts.time_zone,
        "lines": lines,
        "editable": [line.unit for line in lines if _may_set(authority, line.unit)],
        "statements": [
            (row, money.total(row.lines, "cost"), money.total(row.corrections, "cost"))
            for row in statements
        ],
        "may_close": may_close,
        "last_month": last_month,
        "to_close": "" if any(row.month >= last_month for row in statements) else last_month,
        "outstanding": money.outstanding(now=now) if may_close else {},
    }
    return render(request, "reports/money.html", context, status=status if refused or kept else 200)


def _may_set(authority: UserAuthority, unit: queries.BudgetRow) -> bool:
    if unit.level is Level.DEPARTMENT:
        return authority.may(Action.DEPARTMENT_QUOTA, department_id=unit.unit_id)
    return authority.may(Action.PROJECT_QUOTA, department_id=unit.department_id)
