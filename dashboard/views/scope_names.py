"""Scopes as forms name them: project-3, department-2."""

from __future__ import annotations

from access.scopes import Scope
from dashboard.views.numbers import optional_int


def scope_in(text: str) -> Scope:
    """Return the scope that a form's value such as ``project-3`` names; None: no narrower one."""
    kind, _dash, number = text.partition("-")
    scope_id = optional_int(number)
    if kind in {"department", "project"} and scope_id is not None:
        return (kind, scope_id)
    return None
