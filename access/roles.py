"""The built-in roles as data: role to permissions."""

from __future__ import annotations

from enum import StrEnum

from scheduler.operations.authority import Action


class Role(StrEnum):
    """Who one is within a scope."""

    SYSTEM_ADMIN = "system_admin"
    DEPARTMENT_ADMIN = "department_admin"
    PROJECT_ADMIN = "project_admin"
    RESEARCHER = "researcher"
    ML_ENGINEER = "ml_engineer"
    VIEWER = "viewer"


#: Who experiments also defines what experiments are made of.
_WORK = frozenset({Action.WORK, Action.ASSETS})
_SERVE = frozenset({Action.SERVE})

#: What each role may do inside its scope. To see comes with any role.
PERMISSIONS: dict[Role, frozenset[Action]] = {
    Role.SYSTEM_ADMIN: frozenset(Action),
    Role.DEPARTMENT_ADMIN: frozenset(
        {
            Action.WORK,
            Action.SERVE,
            Action.ASSETS,
            Action.PROJECT_QUOTA,
            Action.ACCESS,
            Action.AUDIT,
            Action.POLICY,
        }
    ),
    Role.PROJECT_ADMIN: _WORK | _SERVE | {Action.ACCESS, Action.POLICY},
    Role.RESEARCHER: _WORK,
    Role.ML_ENGINEER: _SERVE,
    Role.VIEWER: frozenset(),
}

#: Which roles the holder of a role may give and take away inside its own scope: none above its own.
MAY_GRANT: dict[Role, frozenset[Role]] = {
    Role.SYSTEM_ADMIN: frozenset(Role),
    Role.DEPARTMENT_ADMIN: frozenset(Role) - {Role.SYSTEM_ADMIN},
    Role.PROJECT_ADMIN: frozenset({Role.RESEARCHER, Role.VIEWER}),
    Role.RESEARCHER: frozenset(),
    Role.ML_ENGINEER: frozenset(),
    Role.VIEWER: frozenset(),
}
