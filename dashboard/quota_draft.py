"""A draft of quotas as a page's form carries it: fields of each row to edits, mistakes at their cells.

Each row has the fields ``quota``, ``limit``, ``over``, ``rank`` and ``weight``, the version that it was
read at, and in ``base`` the values that it was read with. Only cells that differ from those count as
touched, so that a row which someone else changed meanwhile can keep what one did not touch oneself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from django.utils.translation import gettext as _

from dashboard import words
from scheduler.core.snapshot import QueueQuota
from scheduler.core.units import UNLIMITED_MGPU, AmountRefused, format_gpu, parse_gpu
from scheduler.core.vocabulary import Rank
from scheduler.operations.quota_rules import normalized
from scheduler.operations.quotas import QuotaEdit
from scheduler.queries.quota_tree import Key, QuotaRow, QuotaTree

COLUMNS = ("quota_mgpu", "limit_mgpu", "over_quota", "rank", "weight_milli")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """One row as text, as its form fields hold it."""

    quota: str
    limit: str
    over: bool
    rank: int
    weight: str
    base: str
    version: int


@dataclass(slots=True, kw_only=True)
class Draft:
    """What a form holds: the tree as it would be, what was touched, and what can't be read."""

    tree: QuotaTree
    cells: dict[Key, Cells] = field(default_factory=dict)
    wanted: dict[Key, QueueQuota] = field(default_factory=dict)
    edits: list[QuotaEdit] = field(default_factory=list)
    #: Unit and column to sentence.
    mistakes: dict[tuple[str, str], str] = field(default_factory=dict)
    #: Rows that someone else has changed since they were read.
    moved: list[QuotaRow] = field(default_factory=list)

    @property
    def changed(self) -> QuotaTree:
        """Return the tree as it would be."""
        return self.tree.with_quotas(self.wanted)


def cells_of(row: QuotaRow, quota: QueueQuota | None = None) -> Cells:
    """Return a row's values as text; ``quota`` stands in for what it has now."""
    shown = quota or row.quota
    unlimited = shown.limit_mgpu >= UNLIMITED_MGPU
    return Cells(
        quota=format_gpu(shown.quota_mgpu),
        limit="" if unlimited and shown.over_quota else format_gpu(shown.effective_limit_mgpu),
        over=shown.over_quota,
        rank=shown.rank,
        weight=weight_text(shown.weight_milli),
        base=_base(row.quota),
        version=row.version,
    )


def weight_text(weight_milli: int) -> str:
    """Return a weight without needless zeros: 2000 is "2", 1500 is "1.5"."""
    return f"{Decimal(weight_milli) / 1000:f}".rstrip("0").rstrip(".") or "0"


def read_draft(
    *, data: Mapping[str, str], tree: QuotaTree, editable: frozenset[Key], rebase: bool = False
) -> Draft:
    """Return the draft that a form holds. ``rebase``: take others' changes over, keep one's own."""
    draft = Draft(tree=tree)
    for row in tree.rows:
        if row.key not in editable or f"{row.unit}-quota" not in data:
            draft.cells[row.key] = cells_of(row)
            continue
        _read_row(draft, row, data, rebase=rebase)
    return draft


def draft_from(*, tree: QuotaTree, wanted: Mapping[Key, QueueQuota]) -> Draft:
    """Return a draft that sets ``wanted``, such as the values before an earlier change."""
    draft = Draft(tree=tree)
    for row in tree.rows:
        quota = wanted.get(row.key)
        draft.cells[row.key] = cells_of(row, quota)
        if quota is not None and quota != row.quota:
            draft.wanted[row.key] = quota
            draft.edits.append(_edit(row, quota))
    return draft


def _read_row(draft: Draft, row: QuotaRow, data: Mapping[str, str], *, rebase: bool) -> None:
    cells = Cells(
        quota=data[f"{row.unit}-quota"].strip()[:20],
        limit=data.get(f"{row.unit}-limit", "").strip()[:20],
        over=data.get(f"{row.unit}-over") == "on",
        rank=_number(data.get(f"{row.unit}-rank", "")),
        weight=data.get(f"{row.unit}-weight", "").strip()[:12],
        base=data.get(f"{row.unit}-base", ""),
        version=_number(data.get(f"{row.unit}-version", "")),
    )
    draft.cells[row.key] = cells
    quota = _parse(draft, row, cells)
    if quota is None:
        return
    touched = _touched(quota, cells.base, row.quota)
    if not touched:
        draft.cells[row.key] = cells_of(row)
        return
    if cells.version != row.version and not rebase:
        draft.moved.append(row)
    merged = normalized(replace(row.quota, **touched))  # type: ignore[arg-type]
    if rebase:
        draft.cells[row.key] = cells_of(row, merged)
    if merged == row.quota:
        return
    draft.wanted[row.key] = merged
    version = row.version if rebase else cells.version
    draft.edits.append(_edit(row, merged, version=version))


def _parse(draft: Draft, row: QuotaRow, cells: Cells) -> QueueQuota | None:
    quota_mgpu = _amount(draft, row, "quota", cells.quota or "0")
    limit_mgpu: int | None = UNLIMITED_MGPU
    if cells.over and cells.limit:
        limit_mgpu = _amount(draft, row, "limit", cells.limit)
    weight_milli = _weight(draft, row, cells.weight or "0")
    if cells.rank not in set(Rank):
        draft.mistakes[row.unit, "rank"] = _("Choose one of the five ranks.")
    if quota_mgpu is None or limit_mgpu is None or weight_milli is None:
        return None
    if cells.rank not in set(Rank):
        return None
    return normalized(
        replace(
            row.quota,
            quota_mgpu=quota_mgpu,
            limit_mgpu=limit_mgpu,
            over_quota=cells.over,
            rank=cells.rank,
            weight_milli=weight_milli,
        )
    )


def _amount(draft: Draft, row: QuotaRow, column: str, text: str) -> int | None:
    try:
        return parse_gpu(text, field=column)
    except AmountRefused:
        draft.mistakes[row.unit, column] = _(
            "Not an amount of GPUs: use a number with at most three places, such as 0.25."
        )
        return None


def _weight(draft: Draft, row: QuotaRow, text: str) -> int | None:
    try:
        scaled = Decimal(text) * 1000
    except InvalidOperation:
        scaled = Decimal("NaN")
    if not scaled.is_finite() or scaled != scaled.to_integral_value() or not 0 <= scaled <= 10**6:
        draft.mistakes[row.unit, "weight"] = _("A weight is a number from 0 to 1000.")
        return None
    return int(scaled)


def _touched(quota: QueueQuota, base: str, current: QueueQuota) -> dict[str, object]:
    """Return the columns that differ from what the row was read with."""
    read = base.split(":")
    if len(read) != len(COLUMNS) or not all(each.isdigit() for each in read):
        read = _base(current).split(":")
    return {
        column: getattr(quota, column)
        for column, was in zip(COLUMNS, read, strict=True)
        if int(getattr(quota, column)) != int(was)
    }


def _base(quota: QueueQuota) -> str:
    return ":".join(str(int(getattr(quota, column))) for column in COLUMNS)


def _edit(row: QuotaRow, quota: QueueQuota, *, version: int | None = None) -> QuotaEdit:
    return QuotaEdit(
        level=row.level,
        id=row.id,
        values=quota,
        version=row.version if version is None else version,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """One cell that a draft changes, in words."""

    column: str
    before: str
    after: str


def changes_of(before: QueueQuota, after: QueueQuota) -> tuple[CellChange, ...]:
    """Return what differs between two sets of values, cell by cell."""
    shown = {
        "quota_mgpu": (_("Guarantee"), format_gpu),
        "limit_mgpu": (_("Limit"), limit_text),
        "over_quota": (_("Over quota"), lambda on: _("allowed") if on else _("off")),
        "rank": (_("Rank"), words.rank_name),
        "weight_milli": (_("Weight"), weight_text),
    }
    return tuple(
        CellChange(
            column=label, before=say(getattr(before, column)), after=say(getattr(after, column))
        )
        for column, (label, say) in shown.items()
        if getattr(before, column) != getattr(after, column)
    )


def limit_text(mgpu: int) -> str:
    """Return a limit, or that there is none."""
    return _("no limit") if mgpu >= UNLIMITED_MGPU else format_gpu(mgpu)
