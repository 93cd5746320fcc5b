"""Forms of assets: one for each kind, text to a definition, each mistake at its field."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from dashboard.forms.start_fields import (
    StartFields,
    command_field,
    lines_of,
    readiness_path_field,
    start_timeout_field,
    variables_field,
)
from scheduler.core.vocabulary import AssetKind, SourceType
from scheduler.operations.asset_definitions import SOURCE_FIELDS
from scheduler.operations.assets import MAX_DESCRIPTION, AssetDraft
from scheduler.queries.assets import AssetRow

SOURCE_TYPES = (
    (SourceType.TREE.value, _("Uploaded files")),
    (SourceType.GIT.value, _("Git")),
    (SourceType.S3.value, _("S3")),
    (SourceType.HOST_PATH.value, _("Path of this machine")),
    (SourceType.NFS.value, _("NFS")),
)
Scopes = Sequence[tuple[str, str]]


class SeveralFiles(forms.FileField):
    """A file field that takes several; its value is their list."""

    def __init__(self, **kwargs: Any) -> None:
        widget = forms.ClearableFileInput()
        widget.allow_multiple_selected = True
        widget.attrs["multiple"] = True
        super().__init__(widget=widget, **kwargs)

    def clean(self, data: Any, initial: Any = None) -> list[Any]:
        """Return the files that were sent."""
        given = data if isinstance(data, list | tuple) else [data] if data else []
        return [super(SeveralFiles, self).clean(file, initial) for file in given]


class SecretText(forms.Textarea):
    """A text that is written and never shown, not even in a form that is not accepted."""

    def format_value(self, value: Any) -> str:
        """Return nothing."""
        return ""


class AssetForm(forms.Form):
    """What every kind has. ``scopes`` is where it may be defined; an asset stays where it is."""

    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        help_text=_("Small letters, digits and hyphens. Work finds data under this name."),
    )
    scope = forms.ChoiceField(label=_("Scope"))
    description = forms.CharField(
        label=_("Description"), max_length=MAX_DESCRIPTION, required=False
    )

    def __init__(
        self, *args: object, scopes: Scopes, row: AssetRow | None = None, **kwargs: object
    ) -> None:
        if row is not None:
            kwargs["initial"] = {
                "name": row.name,
                "description": row.description,
                **self.initial_of(row.definition),
            }
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        if row is not None:
            del self.fields["scope"]
        else:
            field = self.fields["scope"]
            assert isinstance(field, forms.ChoiceField)
            field.choices = list(scopes)
        for name, bound in self.fields.items():
            bound.widget.attrs["aria-describedby"] = f"about-{name}"

    @classmethod
    def initial_of(cls, definition: Mapping[str, object]) -> dict[str, object]:
        """Return what the fields of this kind hold for a definition."""
        return {}

    @property
    def definition(self) -> dict[str, object]:
        """Return what is asked for; only after ``is_valid``."""
        return {}

    @property
    def draft(self) -> AssetDraft:
        """Return the whole draft; only after ``is_valid``."""
        data = self.cleaned_data
        return AssetDraft(
            name=data["name"], description=data["description"], definition=self.definition
        )

    def scope_ids(self) -> tuple[int | None, int | None]:
        """Return (project, department); neither is the whole cluster."""
        kind, _dash, number = self.cleaned_data["scope"].partition("-")
        if kind == "project":
            return int(number), None
        return (None, int(number)) if kind == "department" else (None, None)


class SourceForm(AssetForm):
    """Where data lie."""

    type = forms.ChoiceField(label=_("Where the data lie"), choices=SOURCE_TYPES)
    upload = SeveralFiles(
        label=_("Files"),
        required=False,
        help_text=_(
            "Several files, or one archive (.zip, .tar.gz), which is unpacked. Kept once, "
            "read-only."
        ),
    )
    url = forms.CharField(
        label=_("Repository"),
        required=False,
        max_length=500,
        help_text=_("Such as https://git.example.org/team/code.git"),
    )
    revision = forms.CharField(
        label=_("Branch, tag or commit"),
        required=False,
        max_length=200,
        help_text=_(
            "Empty: the repository's own branch. Work keeps the commit that it began with."
        ),
    )
    endpoint = forms.CharField(label=_("Service"), required=False, max_length=500)
    bucket = forms.CharField(label=_("Bucket"), required=False, max_length=63)
    folder = forms.CharField(label=_("Folder"), required=False, max_length=500)
    server = forms.CharField(label=_("Server"), required=False, max_length=253)
    path = forms.CharField(
        label=_("Path"),
        required=False,
        max_length=500,
        help_text=_("For system admins, since other people's files may lie there."),
    )
    credential_id = forms.TypedChoiceField(
        label=_("Fetched with the credential"),
        required=False,
        coerce=int,
        empty_value=None,
        help_text=_("Git: USERNAME and PASSWORD. S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."),
    )

    def __init__(self, *args: object, credentials: Scopes = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["credential_id"]
        assert isinstance(field, forms.TypedChoiceField)
        field.choices = [("", _("none")), *credentials]
        #: What an upload was kept as; set by the view.
        self.kept: Mapping[str, object] = {}

    @classmethod
    def initial_of(cls, definition: Mapping[str, object]) -> dict[str, object]:
        """Return the definition: its keys are the fields."""
        return dict(definition)

    @property
    def definition(self) -> dict[str, object]:
        """Return what the type uses, and nothing else."""
        data = self.cleaned_data
        source = SourceType(data["type"])
        if source is SourceType.TREE:
            return {"type": source.value, **self.kept}
        found: dict[str, object] = {
            "type": source.value,
            **{name: data[name].strip() for name in SOURCE_FIELDS[source]},
        }
        if source in (SourceType.GIT, SourceType.S3):
            found["credential_id"] = data["credential_id"]
        return found


class EnvironmentForm(StartFields, AssetForm):
    """How work is started."""

    command = command_field(
        _("Taken where a submission gives none. {port} is the port of a service.")
    )
    env = variables_field(rows=4)
    working_dir = forms.CharField(
        label=_("Working directory"),
        required=False,
        max_length=200,
        help_text=_("Below the workload's own folder, such as the name of a data source."),
    )
    readiness_path = readiness_path_field(
        _("Services: answered with 2xx once it is ready, such as /health.")
    )
    start_timeout_s = start_timeout_field(initial=600)

    @classmethod
    def initial_of(cls, definition: Mapping[str, object]) -> dict[str, object]:
        """Return the definition as text."""
        env, command = definition.get("env"), definition.get("command")
        return {
            **definition,
            "command": shlex.join(map(str, command)) if isinstance(command, list) else "",
            "env": "\n".join(f"{k}={v}" for k, v in env.items()) if isinstance(env, dict) else "",
        }

    @property
    def definition(self) -> dict[str, object]:
        """Return the fields of an environment."""
        names = ("command", "env", "working_dir", "readiness_path", "start_timeout_s")
        return {name: self.cleaned_data[name] for name in names}


class CredentialForm(AssetForm):
    """Secrets: written here, never read again."""

    secrets = forms.CharField(
        label=_("Values"),
        required=False,
        strip=False,
        widget=SecretText(
            attrs={"rows": 4, "autocomplete": "off", "spellcheck": "false", "class": "secret"}
        ),
        help_text=_(
            "One a line: NAME=value. Work gets them as its environment. They are encrypted and "
            "never shown again; whoever may submit work in the scope can have work read them."
        ),
    )

    def clean_secrets(self) -> dict[str, str] | None:
        """Return the values; None where nothing was written."""
        text = self.cleaned_data["secrets"]
        return lines_of(text) if text.strip() else None

    @property
    def draft(self) -> AssetDraft:
        """Return the draft with the values."""
        data = self.cleaned_data
        return AssetDraft(
            name=data["name"], description=data["description"], secrets=data["secrets"]
        )


class TemplateForm(AssetForm):
    """Name and description of a template; what it holds comes from a submission."""

    def __init__(self, *args: object, kept: Mapping[str, object] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.kept = dict(kept or {})

    @property
    def definition(self) -> dict[str, object]:
        """Return what it held before."""
        return self.kept


FORMS: dict[AssetKind, type[AssetForm]] = {
    AssetKind.SOURCE: SourceForm,
    AssetKind.ENVIRONMENT: EnvironmentForm,
    AssetKind.CREDENTIAL: CredentialForm,
    AssetKind.TEMPLATE: TemplateForm,
}
