"""The quota tree as a file: export; an import that was looked at, carried out whole or not at all."""

from __future__ import annotations

from typing import Literal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from ninja import Router, Schema
from ninja.params import functions as param
from pydantic import Field

from dashboard import problems, quota_downloads
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES, Unmet
from dashboard.api.submission import Strict
from scheduler.core.vocabulary import Level
from scheduler.operations.quota_import import Changed, ImportPlan, carry_out, try_out
from scheduler.queries.quota_files import MOST_BYTES, Mistake, cells_of

router = Router(tags=["Quotas"])


class FileIn(Strict):
    """A file as the export writes it. ``make_units``: make what it names and is not there yet."""

    format: Literal["csv", "yaml"] = "csv"
    text: str = Field(max_length=MOST_BYTES)
    make_units: bool = False


class ImportIn(FileIn):
    """A file that was tried out. ``seen``: what the preview answered as such."""

    seen: str = Field(max_length=64)
    reason: str = Field("", max_length=500)


class CellOut(Schema):
    """One value as it is and as it would be, in the file's words; empty: none."""

    field: str
    before: str
    after: str


class ChangedOut(Schema):
    """One row that the file changes."""

    line: int
    pool: str
    level: Level
    name: str
    cells: list[CellOut]

    @staticmethod
    def of(changed: Changed) -> ChangedOut:
        """Return a change as it is answered."""
        before, after = cells_of(changed.before.quota), cells_of(changed.after.quota)
        return ChangedOut(
            line=changed.line,
            pool=changed.pool,
            level=changed.before.level,
            name=changed.before.name,
            cells=[
                CellOut(field=name, before=before[name], after=after[name])
                for name in before
                if before[name] != after[name]
            ],
        )


class MistakeOut(Schema):
    """What is wrong in the file, or will surprise; ``line`` counts from 1."""

    line: int
    field: str
    code: str
    message: str

    @staticmethod
    def of(mistake: Mistake) -> MistakeOut:
        """Return a mistake as it is answered."""
        return MistakeOut(
            line=mistake.line,
            field=mistake.field,
            code=mistake.code,
            message=problems.mistake_in_words(mistake),
        )


class UnitOut(Schema):
    """A department or project that is made with the import."""

    level: Level
    name: str
    department: str


class FilePlanOut(Schema):
    """What the file would do, and did. With mistakes it does nothing."""

    seen: str
    changed: list[ChangedOut]
    unchanged: int
    made: list[UnitOut]
    mistakes: list[MistakeOut]
    warnings: list[MistakeOut]

    @staticmethod
    def of(plan: ImportPlan) -> FilePlanOut:
        """Return a plan as it is answered."""
        return FilePlanOut(
            seen=plan.digest,
            changed=[ChangedOut.of(each) for each in plan.changed],
            unchanged=plan.unchanged,
            made=[
                UnitOut(level=each.level, name=each.name, department=each.department)
                for each in plan.made
            ],
            mistakes=[MistakeOut.of(each) for each in plan.mistakes],
            warnings=[MistakeOut.of(each) for each in plan.warnings],
        )


@router.get(
    "/file",
    response={200: None, **READS},
    summary="The tree as a file",
    openapi_extra={
        "responses": {
            200: {
                "description": "One row for each department and project, of all pools.",
                "content": {
                    "text/csv": {"schema": {"type": "string"}},
                    "application/yaml": {"schema": {}},
                },
            }
        }
    },
)
def export(
    request: HttpRequest, format: Literal["csv", "yaml"] = param.Query("csv")
) -> HttpResponse:
    """The rows that the caller sees; amounts are GPUs, cores and MiB."""
    return quota_downloads.answer_tree(
        visible=who(request).visible, ending=format, now=timezone.now()
    )


@router.post("/file/preview", response={200: FilePlanOut, **WRITES}, summary="Try a file out")
def preview(request: HttpRequest, given: FileIn) -> FilePlanOut:
    """What it would change, cell by cell, and each mistake with its line. Nothing is written."""
    return FilePlanOut.of(
        try_out(
            given.text,
            ending=given.format,
            make_units=given.make_units,
            visible=who(request).visible,
            authority=who(request).authority,
            now=timezone.now(),
        )
    )


@router.put("/file", response={200: FilePlanOut, **WRITES}, summary="Import a file")
def bring_in(request: HttpRequest, given: ImportIn) -> FilePlanOut:
    """All of its rows or none; 412 where it would do something else now than the preview told."""
    with carry_out(
        given.text,
        ending=given.format,
        make_units=given.make_units,
        visible=who(request).visible,
        authority=who(request).authority,
        now=timezone.now(),
        reason=given.reason,
    ) as plan:
        if plan.digest != given.seen and not plan.mistakes:
            raise Unmet(
                "changed_meanwhile",
                _("The quotas have changed since the preview. Try the file out again."),
                status=412,
            )
    return FilePlanOut.of(plan)
