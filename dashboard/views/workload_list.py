"""The table of workloads: sorted and filtered by its address, kept current in place, and as a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_GET

from dashboard import words
from dashboard.downloads import no_such, streamed
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from dashboard.views.submit import open_projects
from reports import csv_export
from reports.numbers import decimal_text
from scheduler.core.vocabulary import Kind, Phase
from scheduler.queries import workloads as queries
from scheduler.queries.csv_text import guard
from scheduler.queries.visibility import Visibility

#: Which columns are left out, as the page's script keeps it.
HIDDEN_COOKIE = "tidegate_hidden_columns"
#: Rows that one request keeps current.
MOST_SHOWN = 300
LINES_A_READ = 500
CSV_COLUMNS = (
    "workload_id",
    "name",
    "project",
    "kind",
    "state",
    "asked_gpu",
    "held_gpu",
    "place",
    "idle",
    "utilization_percent",
    "priority",
    "preemptible",
    "submitted_by",
    "submitted_at",
    "state_since",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table: its class, its word, and what it is sorted by (empty: it can't be)."""

    name: str
    label: object
    sort: str = ""
    #: Sorted the other way round first: the newest, the highest.
    down_first: bool = False
    right: bool = False


COLUMNS = (
    Column(name="state", label=gettext_lazy("State"), sort="phase"),
    Column(name="name", label=gettext_lazy("Name"), sort="name"),
    Column(name="type", label=gettext_lazy("Type"), sort="kind"),
    Column(
        name="gpu",
        label=pgettext_lazy("column", "GPU"),
        sort="request_mgpu",
        down_first=True,
        right=True,
    ),
    Column(name="where", label=gettext_lazy("Where")),
    Column(name="use", label=gettext_lazy("Use"), right=True),
    Column(
        name="since", label=gettext_lazy("Since"), sort="phase_since", down_first=True, right=True
    ),
    Column(
        name="priority",
        label=gettext_lazy("Priority"),
        sort="priority",
        down_first=True,
        right=True,
    ),
    Column(name="by", label=gettext_lazy("Submitted by")),
    Column(
        name="submitted",
        label=gettext_lazy("Submitted"),
        sort="submitted_at",
        down_first=True,
        right=True,
    ),
)
#: Left out until someone asks for them.
HIDDEN_AT_FIRST = ("by", "submitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A head of the table as it stands now."""

    column: Column
    #: Where a press leads; empty: it does not sort.
    address: str
    #: For readers of the screen: ascending, descending, or empty.
    sorted: str


@login_required
@require_GET
def workloads(request: HttpRequest) -> HttpResponse:
    """Answer the table; every filter and the order stand in the address."""
    visible = signed_in.visible_to(request)
    wanted = _wanted(request)
    return render(
        request,
        "dashboard/workloads.html",
        {
            "page": _read(request, visible, wanted),
            "wanted": wanted,
            "unknown": _unknown(request),
            "is_filtered": wanted != queries.WorkloadFilter(sort=wanted.sort, after=wanted.after),
            "heads": _heads(request, wanted),
            "hidden": _hidden(request),
            "asked": _without(request, "after"),
            "projects": queries.list_projects(visible=visible),
            "phases": [(p.value, words.phase_name(p)) for p in Phase],
            "kinds": [(k.value, words.kind_name(k)) for k in Kind],
            "may_submit": bool(open_projects(request)),
        },
    )


@login_required
@require_GET
def rows(request: HttpRequest) -> HttpResponse:
    """Answer the rows of one page as they are now, and of those that are shown the others."""
    visible = signed_in.visible_to(request)
    page = _read(request, visible, _wanted(request))
    on_page = {row.id for row in page.rows}
    shown = [optional_int(part) for part in request.GET.get("shown", "").split(",")[:MOST_SHOWN]]
    others = tuple(number for number in shown if number is not None and number not in on_page)
    also: tuple[queries.WorkloadRow, ...] = ()
    if others:
        asked = queries.WorkloadFilter(ids=others, limit=MOST_SHOWN)
        also = _read(request, visible, asked).rows
    return render(
        request,
        "dashboard/partials/_workload_rows_now.html",
        {
            "page": page,
            "also": also,
            "asked": _without(request, "after", "shown"),
            "may_submit": bool(open_projects(request)),
        },
    )


@login_required
@require_GET
def file(request: HttpRequest) -> HttpResponseBase:
    """Answer all workloads that the filters name, as CSV; none where a filter means nothing."""
    unknown = _unknown(request)
    if unknown:
        return no_such(unknown)
    visible = signed_in.visible_to(request)
    pool_name = request.GET.get("pool", "")
    wanted = replace(_wanted(request), after="", limit=LINES_A_READ)
    name = f"workloads-{timezone.localtime():%Y%m%d-%H%M}.csv"
    lines = _lines(visible=visible, pool_name=pool_name, wanted=wanted)
    return streamed(csv_export.stream(header=CSV_COLUMNS, lines=lines), name)


def _lines(
    *, visible: Visibility, pool_name: str, wanted: queries.WorkloadFilter
) -> Iterator[list[str]]:
    while True:
        page = queries.list_workloads(visible=visible, pool_name=pool_name, wanted=wanted)
        for row in page.rows:
            yield _line(row)
        if not page.next_after:
            return
        wanted = replace(wanted, after=page.next_after)


def _line(row: queries.WorkloadRow) -> list[str]:
    use = row.utilization_permille
    return [
        str(row.id),
        guard(row.name),
        guard(row.project_name),
        row.kind,
        row.phase,
        decimal_text(amount=row.asked_mgpu, unit=1000, places=3),
        decimal_text(amount=row.held_mgpu, unit=1000, places=3),
        guard(row.place),
        "1" if row.idle else "0",
        "" if use is None else decimal_text(amount=use, unit=10, places=1),
        str(row.priority),
        "1" if row.preemptible else "0",
        guard(row.submitted_by),
        row.submitted_at.isoformat(),
        row.since.isoformat(),
    ]


def _read(
    request: HttpRequest, visible: Visibility, wanted: queries.WorkloadFilter
) -> queries.WorkloadPage:
    return queries.list_workloads(
        visible=visible, pool_name=request.GET.get("pool", ""), wanted=wanted
    )


def _wanted(request: HttpRequest) -> queries.WorkloadFilter:
    """Return what the address asks for; what it can't mean is left out."""
    phase = request.GET.get("state", "")
    kind = request.GET.get("type", "")
    sort = request.GET.get("sort", "")
    return queries.WorkloadFilter(
        project_id=optional_int(request.GET.get("project")),
        phase=phase if phase in set(Phase) else "",
        kind=kind if kind in set(Kind) else "",
        text=request.GET.get("q", "").strip()[:100],
        idle=request.GET.get("idle") == "1",
        owner=request.GET.get("owner", "").strip()[:150],
        sort=queries.Sort(sort) if sort in set(queries.Sort) else queries.Sort.NEWEST,
        after=request.GET.get("after", "")[:300],
    )


def _unknown(request: HttpRequest) -> list[str]:
    """Return what the address asks for that there is none of, as it stands there."""
    known: dict[str, set[str]] = {
        "state": set(Phase),
        "type": set(Kind),
        "sort": set(queries.Sort),
    }
    given = {name: request.GET.get(name, "") for name in (*known, "project")}
    found = [name for name, values in known.items() if given[name] and given[name] not in values]
    if given["project"] and optional_int(given["project"]) is None:
        found.append("project")
    return [f"{name}={given[name][:100]}" for name in found]


def _heads(request: HttpRequest, wanted: queries.WorkloadFilter) -> list[Head]:
    return [_head(request, column, wanted.sort) for column in COLUMNS]


def _head(request: HttpRequest, column: Column, sort: str) -> Head:
    """Return a head: a first press sorts, a second the other way, a third gives the first order back."""
    if not column.sort:
        return Head(column=column, address="", sorted="")
    first, second = column.sort, f"-{column.sort}"
    if column.down_first:
        first, second = second, first
    following = {first: second, second: ""}.get(sort, first)
    query = _without(request, "after", "sort")
    if following:
        query = f"{query}&sort={following}" if query else f"sort={following}"
    is_sorted = sort.removeprefix("-") == column.sort
    direction = "descending" if sort.startswith("-") else "ascending"
    return Head(column=column, address=f"?{query}", sorted=direction if is_sorted else "")


def _without(request: HttpRequest, *names: str) -> str:
    """Return the address's question without these, and without what says nothing."""
    kept = request.GET.copy()
    for name in list(kept):
        if name in names or not kept[name]:
            del kept[name]
    return kept.urlencode()


def _hidden(request: HttpRequest) -> list[str]:
    """Return the columns that this reader left out; the name always stays."""
    kept = request.COOKIES.get(HIDDEN_COOKIE)
    if kept is None:
        return list(HIDDEN_AT_FIRST)
    known = {column.name for column in COLUMNS} - {"name"}
    return [name for name in kept.split(".") if name in known]
