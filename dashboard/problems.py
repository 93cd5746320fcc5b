"""What an operation refused, in the reader's language, by code; English where a code is new."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from dashboard import people_words
from dashboard.problem_sentences import PROBLEMS, REFUSALS
from scheduler.core.units import format_gpu
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import Problem
from scheduler.queries.quota_files import Mistake


def in_words(problem: Problem) -> str:
    """Return the sentence for a problem: what is wrong and the way out."""
    sentence = template(problem.code)
    if not sentence:
        return problem.message
    return sentence.format(**_places(problem.params))


def mistake_in_words(mistake: Mistake) -> str:
    """Return what is wrong in a file, with its line and field, and what was perhaps meant."""
    params = dict(mistake.params)
    near = params.pop("near", ())
    said = in_words(Problem(field="", code=mistake.code, message=mistake.code, params=params))
    if isinstance(near, tuple) and near:
        said += " " + _("Did you mean {names}?").format(names=", ".join(near))
    if not mistake.field:
        return _("Line {line}: {said}").format(line=mistake.line, said=said)
    return _("Line {line}, {field}: {said}").format(
        line=mistake.line, field=mistake.field, said=said
    )


def refusal(error: NotPermitted) -> str:
    """Return why a role is not enough, and the way out."""
    template = str(REFUSALS.get(error.code, "") or people_words.REFUSALS.get(error.code, ""))
    return template.format(**error.params) if template else str(error)  # new codes: in English


def template(code: str) -> str:
    """Return the sentence of a code with places for its figures; empty: no such code."""
    return str(PROBLEMS.get(code, "") or people_words.PROBLEMS.get(code, ""))


def _places(params: Mapping[str, object]) -> dict[str, object]:
    amounts = (
        "asked", "quota", "own", "protected", "limit", "held", "over", "promised", "available"
    )  # fmt: skip
    return {
        name: format_gpu(value) if name in amounts and isinstance(value, int) else value
        for name, value in params.items()
    }
