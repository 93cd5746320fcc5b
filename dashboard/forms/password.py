"""The form of one's own password."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _


def _password(label: object, autocomplete: str) -> forms.CharField:
    return forms.CharField(
        label=label,  # type: ignore[arg-type]
        max_length=500,
        strip=False,
        widget=forms.PasswordInput({"autocomplete": autocomplete}),
    )


class PasswordForm(forms.Form):
    """The present password and twice the new one."""

    present = _password(_("Present password"), "current-password")
    wanted = _password(_("New password"), "new-password")
    repeated = _password(_("New password again"), "new-password")
