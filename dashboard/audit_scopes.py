"""Whose log a caller may read: scopes in which its role holds the right to."""

from __future__ import annotations

from access.scopes import UserAuthority
from scheduler.operations.authority import Action
from scheduler.queries.visibility import Visibility


def audit_scopes(authority: UserAuthority) -> Visibility | None:
    """Return the scopes whose log may be read; None: for this caller there is no log."""
    scopes = [scope for scope, actions in authority.grants if Action.AUDIT in actions]
    if not scopes:
        return None
    if None in scopes:
        return Visibility(cluster=True, scratch=True)
    return Visibility(
        department_ids=frozenset(each[1] for each in scopes if each and each[0] == "department"),
        project_ids=frozenset(each[1] for each in scopes if each and each[0] == "project"),
    )
