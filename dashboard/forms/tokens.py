"""Forms of access tokens and service accounts."""

from __future__ import annotations

from collections.abc import Sequence

from django import forms
from django.utils.translation import gettext_lazy as _

from access.scopes import Scope
from access.tokens import MOST_DAYS, TokenTerms


class TokenForm(forms.Form):
    """A new access token; ``terms`` is what it may."""

    name = forms.CharField(
        label=_("Name"), max_length=63, help_text=_("What will use it, such as: nightly sweep.")
    )
    scope = forms.ChoiceField(label=_("Scope"), required=False)
    days = forms.IntegerField(
        label=_("Ends after, days"), min_value=1, max_value=MOST_DAYS, initial=30
    )
    read_only = forms.BooleanField(
        label=_("Only to read"), required=False, widget=forms.CheckboxInput({"class": "check"})
    )

    def __init__(self, *args: object, scopes: Sequence[tuple[str, str]], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        field = self.fields["scope"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("all that the account may")), *scopes]

    def terms(self, *, scope: Scope) -> TokenTerms:
        """Return what is asked for, for one scope; only after ``is_valid``."""
        data = self.cleaned_data
        return TokenTerms(
            name=data["name"],
            days=data["days"],
            read_only=data["read_only"],
            scope=scope,
        )
