"""What a caller may see. Every query takes one; what is not in it does not exist for the caller."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The projects and departments that a caller may see; hashable, so states are made once per scope."""

    #: The whole cluster: sums over everything may be shown.
    cluster: bool = False
    department_ids: frozenset[int] = frozenset()
    project_ids: frozenset[int] = frozenset()
    #: Scratch trees of verifications are shown only where asked for.
    scratch: bool = False
    #: The cluster's setting: nothing of what others hold is told, nor the figures of a department that
    #: one sees in part.
    hides_others: bool = False

    def sees_department(self, department_id: int) -> bool:
        """Test whether a scope covers the whole department."""
        return self.cluster or department_id in self.department_ids

    @property
    def tells_others(self) -> bool:
        """Test whether amounts in use by others may be told, without names."""
        return self.cluster or not self.hides_others

    def tells_of(self, department_id: int) -> bool:
        """Test whether the figures of a department that blocks one's own request may be told."""
        return self.sees_department(department_id) or self.tells_others

    def projects(self, *, prefix: str = "") -> Q:
        """Return the filter on a relation to projects, reached by ``prefix`` (such as "project__")."""
        condition = Q()
        if not self.cluster:
            condition = Q(**{f"{prefix}id__in": self.project_ids}) | Q(
                **{f"{prefix}department_id__in": self.department_ids}
            )
        if not self.scratch:
            condition &= Q(**{f"{prefix}department__scratch": False})
        return condition

    def departments(self, *, prefix: str = "") -> Q:
        """Return the filter on a relation to departments; one's project shows its department."""
        condition = Q()
        if not self.cluster:
            condition = Q(**{f"{prefix}id__in": self.department_ids}) | Q(
                **{f"{prefix}projects__id__in": self.project_ids}
            )
        if not self.scratch:
            condition &= Q(**{f"{prefix}scratch": False})
        return condition


#: What the tick and the command line see.
SYSTEM = Visibility(cluster=True, scratch=True)
#: Everything but scratch trees.
WHOLE_CLUSTER = Visibility(cluster=True)
