"""The part of the submit form that names assets."""

from __future__ import annotations

from collections.abc import Sequence

from django import forms
from django.utils.translation import gettext_lazy as _

from dashboard.words import asset_in_scope
from scheduler.core.vocabulary import AssetKind
from scheduler.queries.assets import AssetRow


class AssetFields(forms.Form):
    """What of assets a submission names. Whether a project may use them is the operation's to say."""

    environment = forms.TypedChoiceField(
        label=_("Environment"), required=False, coerce=int, empty_value=None
    )
    sources = forms.TypedMultipleChoiceField(
        label=_("Data sources"),
        required=False,
        coerce=int,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Each is a folder of its name in the working directory."),
    )
    credentials = forms.TypedMultipleChoiceField(
        label=_("Credentials"),
        required=False,
        coerce=int,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Their values are set as variables."),
    )

    def offer(self, assets: Sequence[AssetRow]) -> None:
        """Offer these assets; a kind of which there is none has no field."""
        for name, kind in (
            ("environment", AssetKind.ENVIRONMENT),
            ("sources", AssetKind.SOURCE),
            ("credentials", AssetKind.CREDENTIAL),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            found = [(row.id, asset_in_scope(row)) for row in assets if row.kind is kind]
            field.choices = [("", _("none")), *found] if name == "environment" else found
