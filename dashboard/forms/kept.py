"""A form that was refused, as its page shows it again: what was typed, and what is wrong at which field.

For pages with several small forms. The page's template names its forms and fields by the tags of
``templatetags/kept.py``; a secret is never kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django import forms
from django.http import HttpRequest

from dashboard import problems
from scheduler.operations.refused import Problem

SECRET = frozenset({"password", "csrfmiddlewaretoken"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One form of a page. Field "" holds what is wrong with no field of it."""

    form: str
    typed: Mapping[str, str]
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)


def keep_posted(
    request: HttpRequest,
    form: str,
    found: Sequence[Problem] | str,
    *,
    names: Mapping[str, str] | None = None,
) -> Kept:
    """Return the posted form with what an operation refused of it, or with one sentence about it all.

    ``names``: fields of the operation that are called otherwise in the form.
    """
    errors: dict[str, list[str]] = {}
    if isinstance(found, str):
        errors[""] = [found]
    else:
        for problem in found:
            name = (names or {}).get(problem.field, problem.field)
            errors.setdefault(name if name in request.POST else "", []).append(
                problems.in_words(problem)
            )
    return Kept(form=form, typed=_typed(request), errors=errors)


def keep_form(request: HttpRequest, form: str, found: forms.BaseForm) -> Kept:
    """Return the posted form with what a Django form found wrong with it."""
    return Kept(
        form=form,
        typed=_typed(request),
        errors={
            name if name in request.POST else "": [str(each) for each in errors]
            for name, errors in found.errors.items()
        },
    )


def keep_at(request: HttpRequest, form: str, name: str, sentence: str) -> Kept:
    """Return the posted form with one sentence at one field."""
    return Kept(form=form, typed=_typed(request), errors={name: [sentence]})


def _typed(request: HttpRequest) -> dict[str, str]:
    return {name: str(text) for name, text in request.POST.items() if name not in SECRET}
