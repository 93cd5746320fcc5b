"""Shapes that several endpoints answer."""

from __future__ import annotations

from ninja import Schema

from scheduler.queries.phrases import plain
from scheduler.queries.quota_preview import Loss, Touched
from scheduler.queries.reasons import Waiting


class ReasonOut(Schema):
    """Why something waits, and what would have to change. ``code`` is empty before the first cycle."""

    code: str
    why: str
    runs_when: str
    never: bool

    @staticmethod
    def of(found: Waiting | None) -> ReasonOut | None:
        """Return a reason as it is answered."""
        if found is None:
            return None
        return ReasonOut(
            code=found.code,
            why=plain(found.why),
            runs_when=plain(found.runs_when),
            never=found.never,
        )


class NamedWorkload(Schema):
    """A workload by name, with what it holds or asks for."""

    id: int
    name: str
    project: str
    kind: str
    mgpu: int

    @staticmethod
    def of(found: Touched) -> NamedWorkload:
        """Return a workload as it is answered."""
        return NamedWorkload(
            id=found.id,
            name=found.name,
            project=found.project_name,
            kind=found.kind.value,
            mgpu=found.mgpu,
        )


class LossOut(Schema):
    """One workload that would be interrupted, by which rule, and what that costs."""

    workload: NamedWorkload
    rule: str
    lost_s: int
    has_checkpoint: bool

    @staticmethod
    def of(loss: Loss) -> LossOut:
        """Return an interruption as it is answered."""
        return LossOut(
            workload=NamedWorkload.of(loss.workload),
            rule=loss.rule.value,
            lost_s=loss.lost_s,
            has_checkpoint=loss.checkpoint_age_s is not None,
        )
