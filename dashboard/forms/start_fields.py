"""How work is started, in the forms of a workload and of an environment: command, variables, readiness."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

LONGEST_START_S = 86_400


def command_field(help_text: StrOrPromise) -> forms.CharField:
    """Return the field of a command, written as in a shell."""
    area = forms.Textarea(attrs={"rows": 2})
    return forms.CharField(label=_("Command"), required=False, widget=area, help_text=help_text)


def variables_field(*, rows: int) -> forms.CharField:
    """Return the field of the environment's variables, so many rows high."""
    return forms.CharField(
        label=_("Variables"),
        required=False,
        widget=forms.Textarea(attrs={"rows": rows}),
        help_text=_("One a line: NAME=value. Nothing secret: that is what credentials are for."),
    )


def readiness_path_field(help_text: StrOrPromise) -> forms.CharField:
    """Return the field of the path that answers once a service is ready."""
    return forms.CharField(
        label=_("Readiness path"), required=False, max_length=200, help_text=help_text
    )


def start_timeout_field(**options: Any) -> forms.IntegerField:
    """Return the field of how long a service may take to be ready, in seconds."""
    return forms.IntegerField(
        label=_("Ready within, seconds"), min_value=1, max_value=LONGEST_START_S, **options
    )


class StartFields(forms.Form):
    """A form with the fields ``command`` and ``env``: text to parts and to a mapping."""

    def clean_command(self) -> list[str]:
        """Return the command's parts."""
        try:
            return shlex.split(self.cleaned_data["command"])
        except ValueError as error:
            raise forms.ValidationError(
                _("A quote is not closed: check the quotes of the command.")
            ) from error

    def clean_env(self) -> dict[str, str]:
        """Return the variables."""
        return lines_of(self.cleaned_data["env"])


def lines_of(text: str) -> dict[str, str]:
    """Return NAME=value lines as a mapping.

    Raises:
        ValidationError: a line without an equals sign, or a name twice; no value is said.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals or name.strip() in found:
            raise forms.ValidationError(
                _("Line %(n)s is not NAME=value, or its name is there twice."), params={"n": number}
            )
        found[name.strip()] = value
    return found
