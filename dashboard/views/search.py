"""Find a workload, project, node or person by a part of its name, and a decision by its number."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from access import listing
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.operations.authority import Action
from scheduler.queries import former_names, history
from scheduler.queries import nodes as node_queries
from scheduler.queries import workloads as queries

SHOWN = 5


@login_required
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """Answer what matches, in groups; as a list under the box where htmx asks."""
    text = request.GET.get("q", "").strip()[:100]
    visible = signed_in.visible_to(request)
    found: dict[str, object] = {"text": text, "any": False}
    if text:
        page = queries.list_workloads(visible=visible, wanted=queries.WorkloadFilter(text=text))
        former = former_names.read_former_names()
        projects = [
            (project, names)
            for project in queries.list_projects(visible=visible)
            for names in [[name for name, _until in former.get(("project", project.id), ())]]
            if any(text.casefold() in name.casefold() for name in (project.name, *names))
        ]
        nodes = [
            row
            for row in node_queries.list_nodes(visible=visible)
            if text.casefold() in row.node.name.casefold()
        ]
        people = _people(request, text)
        number = optional_int(text)
        decision = (
            None if number is None else history.read_decision(visible=visible, decision_id=number)
        )
        found |= {
            "workloads": page.rows[:SHOWN],
            "total": page.total,
            "projects": projects[:SHOWN],
            "nodes": nodes[:SHOWN],
            "people": people[:SHOWN],
            "decision": decision,
            "any": bool(page.rows or projects or nodes or people or decision),
        }
    template = "dashboard/search.html"
    if getattr(request, "htmx", False):
        template = "dashboard/partials/_search_results.html"
    return render(request, template, found)


def _people(request: HttpRequest, text: str) -> tuple[listing.PersonRow, ...]:
    """Return people by a part of their name, for those who may give roles; nobody for others."""
    authority = signed_in.authority(request)
    if not authority.may_anywhere(Action.ACCESS):
        return ()
    return listing.list_people(authority=authority, text=text)
