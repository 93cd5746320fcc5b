"""What an operation refuses, at the field of the form that it is about."""

from __future__ import annotations

from django import forms

from dashboard import problems
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import Refused


def show(form: forms.BaseForm, error: Refused | NotPermitted) -> None:
    """Write a refusal into a form, in the reader's language."""
    if isinstance(error, NotPermitted):
        form.add_error(None, problems.refusal(error))
        return
    for problem in error.problems:
        field = problem.field if problem.field in form.fields else None
        form.add_error(field, problems.in_words(problem))
