"""What the quota editor shows of a draft: its rows, what is wrong, and what saving it would do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from dashboard import problems
from dashboard.forms.timing import NOW, WEEKLY
from dashboard.quota_draft import CellChange, Cells, Draft, changes_of
from scheduler.core.vocabulary import Level
from scheduler.operations import quota_rules
from scheduler.operations.authority import Action, Authority
from scheduler.operations.refused import Problem
from scheduler.queries.quota_preview import QuotaPreview, preview_quotas, preview_switches
from scheduler.queries.quota_tree import Key, QuotaRow, QuotaTree
from scheduler.queries.surplus import Share, find_shares
from scheduler.queries.visibility import Visibility

#: Warnings that have to be confirmed before they are saved.
TO_CONFIRM = frozenset({"no_gpu_ever"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorRow:
    """One row of the table."""

    row: QuotaRow
    cells: Cells
    editable: bool
    changes: tuple[CellChange, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    wrong: frozenset[str]
    share: Share | None
    #: Of a department: what its projects are guaranteed in all.
    children_mgpu: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorPage:
    """The table and what goes with it."""

    tree: QuotaTree
    rows: tuple[EditorRow, ...]
    preview: QuotaPreview | None
    #: Of a window: what its end would do after that.
    end_preview: QuotaPreview | None
    #: Rows that a switch could not take as far as the draft says, as things are.
    short: tuple[QuotaRow, ...]
    promised_mgpu: int | None
    errors: int
    edits: int
    to_confirm: tuple[str, ...]

    @property
    def may_edit(self) -> bool:
        """Test whether the reader may change any row."""
        return any(row.editable for row in self.rows)

    @property
    def loses_work(self) -> bool:
        """Test whether any switch costs anybody work that no checkpoint holds."""
        found = (self.preview, self.end_preview)
        return any(each is not None and each.loses_work for each in found)

    @property
    def changed(self) -> tuple[EditorRow, ...]:
        """Return the rows that the draft changes."""
        return tuple(row for row in self.rows if row.changes)


def editable_keys(*, tree: QuotaTree, authority: Authority) -> frozenset[Key]:
    """Return the rows that the caller may change; a department's own row is a system admin's."""
    return frozenset(
        row.key
        for row in tree.rows
        if authority.may(
            Action.DEPARTMENT_QUOTA if row.level is Level.DEPARTMENT else Action.PROJECT_QUOTA,
            department_id=row.department_id,
        )
    )


def make_page(
    *,
    draft: Draft,
    editable: frozenset[Key],
    visible: Visibility,
    forbid_oversubscription: bool,
    now: datetime,
    when: str = NOW,
) -> EditorPage:
    """Return the page of a draft. The scheduler is asked only where nothing is wrong with it.

    ``when`` it takes effect: a switch that comes later goes as far as it can, so that what work
    holds now is no mistake.
    """
    changed = draft.changed
    found = quota_rules.find_problems(tree=changed, edited=draft.wanted)
    reached = dict(draft.wanted)
    if when != NOW:
        found = [each for each in found if each.code != "quota_below_protected"]
        reached = {
            row.key: quota_rules.within_reach(row, draft.wanted[row.key])
            for row in draft.tree.rows
            if row.key in draft.wanted
        }
    warned = quota_rules.find_warnings(tree=changed, edited=draft.wanted)
    if forbid_oversubscription:
        over = quota_rules.find_oversubscription(tree=changed, edited=draft.wanted)
        found = [*found, *over]
        warned = [each for each in warned if each not in over]
    rows = _rows(draft, changed, editable, found, warned)
    errors = sum(len(row.errors) for row in rows)
    preview, end_preview = None, None
    if draft.wanted and not errors and when == WEEKLY:
        both = preview_switches(visible=visible, tree=draft.tree, wanted=reached, now=now)
        preview, end_preview = both.begin, both.end
    elif draft.wanted and not errors:
        preview = preview_quotas(visible=visible, tree=draft.tree, wanted=reached, now=now)
    departments = [row for row in changed.rows if row.level is Level.DEPARTMENT]
    return EditorPage(
        tree=draft.tree,
        rows=rows,
        preview=preview,
        end_preview=end_preview,
        short=tuple(
            row for row in changed.rows if row.key in reached and reached[row.key] != row.quota
        ),
        promised_mgpu=(
            sum(row.quota.quota_mgpu for row in departments) if visible.cluster else None
        ),
        errors=errors,
        edits=len(draft.edits),
        to_confirm=tuple(problems.in_words(each) for each in warned if each.code in TO_CONFIRM),
    )


def _rows(
    draft: Draft,
    changed: QuotaTree,
    editable: frozenset[Key],
    found: list[Problem],
    warned: list[Problem],
) -> tuple[EditorRow, ...]:
    shares = find_shares(changed)
    moved = {row.key for row in draft.moved}
    made: list[EditorRow] = []
    for before, after in zip(draft.tree.rows, changed.rows, strict=True):
        own = [each for each in found if each.unit == after.unit]
        mistakes = {
            column: text for (unit, column), text in draft.mistakes.items() if unit == after.unit
        }
        errors = [*mistakes.values(), *(problems.in_words(each) for each in own)]
        if after.key in moved:
            errors.append(
                _("Someone else has changed this row since you read it. Review to go on.")
            )
        made.append(
            EditorRow(
                row=after,
                cells=draft.cells[after.key],
                editable=after.key in editable,
                changes=changes_of(before.quota, after.quota),
                errors=tuple(errors),
                warnings=tuple(
                    problems.in_words(each) for each in warned if each.unit == after.unit
                ),
                wrong=frozenset([*mistakes, *(each.field for each in own)]),
                share=shares.get(after.key),
                children_mgpu=_children_mgpu(changed, after),
            )
        )
    return tuple(made)


def _children_mgpu(tree: QuotaTree, row: QuotaRow) -> int | None:
    if row.level is not Level.DEPARTMENT or not row.known:
        return None
    return sum(child.quota.quota_mgpu for child in tree.children(row))
