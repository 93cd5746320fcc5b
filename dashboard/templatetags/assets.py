"""Filters of the asset pages."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

from dashboard import words
from scheduler.core.vocabulary import AssetKind
from scheduler.queries.assets import AssetRow

register = template.Library()


@register.filter
def asset_kind(kind: str) -> str:
    """Return the word for one asset of a kind."""
    return words.asset_kind_name(kind)


@register.filter
def asset_scope(row: AssetRow) -> str:
    """Return the scope's words."""
    if row.project_id is not None:
        return _("project {name}").format(name=row.project_name)
    if row.department_id is not None:
        return _("department {name}").format(name=row.department_name)
    return _("the whole cluster")


@register.filter
def asset_what(row: AssetRow) -> str:
    """Return in one line what an asset is."""
    if row.kind is AssetKind.SOURCE:
        type_name = words.source_type_name(str(row.definition["type"]))
        return f"{type_name}: {words.source_place(row.definition)}"
    said = [value for _word, value in words.asset_facts(row.kind, row.definition) if value]
    return " · ".join(said)


@register.filter
def data_variable(name: str) -> str:
    """Return the variable by which work finds a data source."""
    return "$TIDEGATE_DATA_" + name.upper().replace("-", "_")
