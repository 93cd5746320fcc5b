"""Anticipated refusals: which field, what is wrong, and the way out. Every door shows them alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: a stable code, the field, and numbers for the sentence."""

    field: str
    code: str
    #: A sentence in English; pages translate by code and params.
    message: str
    params: dict[str, object] = dataclasses.field(default_factory=dict)
    #: Where several things were changed at once: which one, such as "project-3".
    unit: str = ""


class Refused(Exception):
    """The operation was not carried out, and nothing was changed.

    * Refused
      * SubmitRefused    a submission or an edit of a workload
      * QuotaRefused     a change of a quota, a limit, a department or a project
        * QuotaConflict  it was made from values that someone else has changed meanwhile
      * NodeRefused      a change of a node or a pool
      * StateRefused     the thing is not in a state for this
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{p.field}: {p.message}" for p in problems))
        self.problems = tuple(problems)


class SubmitRefused(Refused):
    """A submission or an edit of a workload."""


class QuotaRefused(Refused):
    """A change of a quota, a limit, a department or a project."""


class QuotaConflict(QuotaRefused):
    """It was made from values that someone else has changed meanwhile."""


class NodeRefused(Refused):
    """A change of a node or a pool."""


class StateRefused(Refused):
    """The thing is not in a state for this."""


class NotFound(Exception):
    """There is no such thing for this caller: absent and invisible are the same."""
