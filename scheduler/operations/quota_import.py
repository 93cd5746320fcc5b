"""Brings a file of quotas into force: first what it would change, then all of it or nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches

from django.db import transaction

from scheduler import models
from scheduler.core.vocabulary import Level
from scheduler.operations import quota_rules, quotas, units
from scheduler.operations.authority import Action, Authority
from scheduler.operations.quotas import QuotaEdit
from scheduler.operations.refused import Problem, QuotaRefused
from scheduler.queries import quota_files
from scheduler.queries.pool_state import list_pools
from scheduler.queries.quota_files import FileLine, FileRefused, Mistake
from scheduler.queries.quota_tree import Key, QuotaRow, QuotaTree, read_pool_tree
from scheduler.queries.settings import read_settings
from scheduler.queries.visibility import Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One row that a file would change, as it is and as it would be."""

    line: int
    pool: str
    before: QuotaRow
    after: QuotaRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUnit:
    """A department or project that the file names and was not there."""

    level: Level
    name: str
    department: str


@dataclass(slots=True, kw_only=True)
class ImportPlan:
    """What a file would do. With mistakes it does nothing."""

    changed: list[Changed] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    #: What is allowed and will surprise, with the line that it is about.
    warnings: list[Mistake] = field(default_factory=list)
    #: Rows that the file names and leaves as they are.
    unchanged: int = 0
    made: list[MadeUnit] = field(default_factory=list)
    edits: dict[int, list[QuotaEdit]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Return what tells this plan from that of another file, or on other values."""
        told = sorted(
            repr(
                (
                    each.pool,
                    each.before.level,
                    each.before.name,
                    each.before.version,
                    each.after.quota,
                )
            )
            for each in self.changed
        )
        return hashlib.sha256(repr((told, self.made)).encode()).hexdigest()[:16]


def plan_import(text: str, *, ending: str, visible: Visibility, authority: Authority) -> ImportPlan:
    """Return what a file would change, checked as a save would be; nothing is written.

    Names outside of what the caller sees are unknown names.
    """
    plan = ImportPlan()
    try:
        lines, plan.mistakes = quota_files.read_file(text, ending=ending)
    except FileRefused as refused:
        plan.mistakes = [refused.mistake]
        return plan
    trees = {
        pool.name: read_pool_tree(visible=visible, pool=pool)
        for pool in list_pools(visible=visible)
    }
    found: dict[str, dict[Key, tuple[FileLine, QuotaRow]]] = {}
    for line in lines:
        tree, row = _find(line, trees, plan)
        if tree is None or row is None:
            continue
        own = found.setdefault(tree.pool.name, {})
        if row.key in own:
            params = {"first": own[row.key][0].line, "name": row.name}
            plan.mistakes.append(_mistake(line, "project", "row_twice", **params))
            continue
        own[row.key] = (line, row)
    for name, rows in found.items():
        _plan_pool(plan, trees[name], rows, authority)
    plan.mistakes.sort(key=lambda each: each.line)
    return plan


def try_out(
    text: str,
    *,
    ending: str,
    make_units: bool,
    visible: Visibility,
    authority: Authority,
    now: datetime,
) -> ImportPlan:
    """Return what a file would do; with ``make_units`` as if what it names were made first.

    Nothing is kept.

    Raises:
        NotPermitted: the caller may not make a department or project that the file names.
    """
    with transaction.atomic():
        plan = _planned(text, ending, make_units, visible, authority, now)
        transaction.set_rollback(True)
    return plan


@contextmanager
def carry_out(
    text: str,
    *,
    ending: str,
    make_units: bool,
    visible: Visibility,
    authority: Authority,
    now: datetime,
    reason: str = "",
) -> Iterator[ImportPlan]:
    """Make what a file names and set its quotas, all or nothing; the plan is there to be looked at first.

    What the caller raises inside undoes all of it.

    Raises:
        NotPermitted: as ``try_out``.
        QuotaRefused: as ``apply_import``.
    """
    with transaction.atomic():
        plan = _planned(text, ending, make_units, visible, authority, now)
        yield plan
        apply_import(plan, authority=authority, now=now, reason=reason)


def _planned(
    text: str,
    ending: str,
    make_units: bool,  # noqa: FBT001
    visible: Visibility,
    authority: Authority,
    now: datetime,
) -> ImportPlan:
    made: list[MadeUnit] = []
    wrong: list[Mistake] = []
    if make_units:
        try:
            lines, _ = quota_files.read_file(text, ending=ending)
        except FileRefused:
            lines = []
        for line in lines:
            _make_units(line, made, wrong, authority, now)
    plan = plan_import(text, ending=ending, visible=visible, authority=authority)
    plan.made = made
    plan.mistakes = sorted([*wrong, *plan.mistakes], key=lambda each: each.line)
    return plan


def _make_units(
    line: FileLine,
    made: list[MadeUnit],
    wrong: list[Mistake],
    authority: Authority,
    now: datetime,
) -> None:
    """Make the department and the project of a line where they are not there yet."""
    place = "department"
    try:
        department = models.Department.objects.filter(name=line.department, deleted_at=None).first()
        if department is None:
            department = units.create_department(name=line.department, authority=authority, now=now)
            made.append(
                MadeUnit(level=Level.DEPARTMENT, name=department.name, department=department.name)
            )
        place = "project"
        own = models.Project.objects.filter(
            department=department, name=line.project, deleted_at=None
        )
        if line.project and not own.exists():
            project = units.create_project(
                department_id=department.pk, name=line.project, authority=authority, now=now
            )
            made.append(
                MadeUnit(level=Level.PROJECT, name=project.name, department=department.name)
            )
    except QuotaRefused as refused:
        wrong += [_mistake(line, place, each.code, **each.params) for each in refused.problems]


def apply_import(plan: ImportPlan, *, authority: Authority, now: datetime, reason: str = "") -> int:
    """Carry a plan out, all pools or none; return how many rows it changed.

    Raises:
        QuotaRefused: it has mistakes, or the values have become others since it was made.
    """
    if plan.mistakes:
        raise QuotaRefused(
            [
                Problem(
                    field=each.field,
                    code=each.code,
                    message=f"line {each.line}: {each.code}",
                    params={"line": each.line, **each.params},
                )
                for each in plan.mistakes
            ]
        )
    if plan.edits:
        quotas.set_in_pools(edits=plan.edits, authority=authority, now=now, reason=reason)
    return len(plan.changed)


def _find(
    line: FileLine, trees: Mapping[str, QuotaTree], plan: ImportPlan
) -> tuple[QuotaTree | None, QuotaRow | None]:
    tree = trees.get(line.pool)
    if tree is None:
        plan.mistakes.append(_unknown(line, "pool", line.pool, trees))
        return None, None
    departments = {row.name: row for row in tree.rows if row.level is Level.DEPARTMENT}
    department = departments.get(line.department)
    if department is None:
        plan.mistakes.append(_unknown(line, "department", line.department, departments))
        return None, None
    if not line.project:
        return tree, department
    projects = {row.name: row for row in tree.children(department)}
    project = projects.get(line.project)
    if project is None:
        plan.mistakes.append(_unknown(line, "project", line.project, projects))
    return tree, project


def _plan_pool(
    plan: ImportPlan,
    tree: QuotaTree,
    rows: Mapping[Key, tuple[FileLine, QuotaRow]],
    authority: Authority,
) -> None:
    wanted = {}
    for key, (line, row) in rows.items():
        values, mistakes = quota_files.parse_cells(line, row.quota)
        plan.mistakes += mistakes
        values = quota_rules.normalized(values)
        if mistakes:
            continue
        if not row.known or values == row.quota:
            plan.unchanged += 1
            continue
        if not _may(row, authority):
            plan.mistakes.append(_mistake(line, "project", "row_view_only", name=row.name))
            continue
        wanted[key] = values
    after = tree.with_quotas(wanted)
    _check(plan, after, wanted, rows)
    for key in wanted:
        line, row = rows[key]
        changed = after.row(key)
        assert changed is not None
        plan.changed.append(Changed(line=line.line, pool=tree.pool.name, before=row, after=changed))
    if wanted:
        plan.edits[tree.pool.id] = [
            QuotaEdit(level=key[0], id=key[1], values=values, version=rows[key][1].version)
            for key, values in wanted.items()
        ]


def _check(
    plan: ImportPlan,
    after: QuotaTree,
    wanted: Iterable[Key],
    rows: Mapping[Key, tuple[FileLine, QuotaRow]],
) -> None:
    keys = set(wanted)
    lines = {rows[key][1].unit: rows[key][0] for key in keys}
    problems = quota_rules.find_problems(tree=after, edited=keys)
    over = quota_rules.find_oversubscription(tree=after, edited=keys)
    if read_settings().forbid_oversubscription:
        problems += over
    plan.mistakes += [_of_problem(each, lines) for each in problems]
    plan.warnings += [
        _of_problem(each, lines)
        for each in quota_rules.find_warnings(tree=after, edited=keys)
        if each not in problems
    ]


def _of_problem(problem: Problem, lines: Mapping[str, FileLine]) -> Mistake:
    line = lines[problem.unit].line
    field_name = {"quota": "guarantee"}.get(problem.field, problem.field)
    return Mistake(line=line, field=field_name, code=problem.code, params=problem.params)


def _may(row: QuotaRow, authority: Authority) -> bool:
    action = Action.DEPARTMENT_QUOTA if row.level is Level.DEPARTMENT else Action.PROJECT_QUOTA
    return authority.may(action, department_id=row.department_id)


def _unknown(line: FileLine, name: str, text: str, known: Iterable[str]) -> Mistake:
    near = get_close_matches(text, list(known), n=3, cutoff=0.5)
    return _mistake(line, name, f"unknown_{name}", text=text[:63], near=tuple(near))


def _mistake(line: FileLine, place: str, code: str, **params: object) -> Mistake:
    return Mistake(line=line.line, field=place, code=code, params=params)
