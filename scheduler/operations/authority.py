"""Who acts: operations ask an authority about the state before and after. ``access`` makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Action(StrEnum):
    """What can be asked for. Each is checked on the project or department that it touches."""

    WORK = "work"  # workspaces and trainings: create, stop, start, delete
    SERVE = "serve"  # inference services
    ASSETS = "assets"  # data sources, environments, credentials, templates
    PROJECT_QUOTA = "project_quota"
    DEPARTMENT_QUOTA = "department_quota"
    NODES = "nodes"  # nodes, pools, devices, prices, settings
    ACCESS = "access"  # access rules
    AUDIT = "audit"  # to read the audit log
    POLICY = "policy"  # rules on idle time and duration


class NotPermitted(Exception):
    """The caller sees the thing and may not do this to it. The message says the way out.

    Pages translate by ``code`` and ``params``. ``target`` is the row that it is about, which the caller
    sees; the audit log names it.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        params: dict[str, object] | None = None,
        target: object | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.params = params or {}
        self.target = target
        heard = _heard.get()
        if heard is not None:
            heard.append(self)


_heard: ContextVar[list[NotPermitted] | None] = ContextVar("refusals", default=None)


@contextmanager
def hearing_refusals() -> Iterator[list[NotPermitted]]:
    """Collect what is refused for lack of rights inside, also what is caught there.

    Operations are undone with what they have written, so that whoever opens the door has to keep the record.
    """
    heard: list[NotPermitted] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


class Authority(Protocol):
    """What an operation asks about its caller."""

    @property
    def name(self) -> str:
        """Who it is, for the audit log."""
        ...

    @property
    def door(self) -> str:
        """Where the call came in: page, api, admin, command or tick."""
        ...

    def may(
        self, action: Action, *, project_id: int | None = None, department_id: int | None = None
    ) -> bool:
        """Test whether it may do this there. Neither id: over the whole cluster."""
        ...

    def sees_project(self, *, project_id: int, department_id: int) -> bool:
        """Test whether the project exists for it."""
        ...

    def sees_department(self, *, department_id: int) -> bool:
        """Test whether the department's own figures exist for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemAuthority:
    """The tick and the command line: may do everything."""

    name: str = "system"
    door: str = "command"

    def may(
        self, action: Action, *, project_id: int | None = None, department_id: int | None = None
    ) -> bool:
        """Return True."""
        return True

    def sees_project(self, *, project_id: int, department_id: int) -> bool:
        """Return True."""
        return True

    def sees_department(self, *, department_id: int) -> bool:
        """Return True."""
        return True


SYSTEM: Authority = SystemAuthority()
