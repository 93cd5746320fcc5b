"""Template tags for pages with several small forms: what was typed into one that was refused, and why."""

from __future__ import annotations

from typing import Any

from django import template
from django.template.context import RequestContext
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard.forms.kept import Kept

register = template.Library()


def _kept(context: RequestContext, form: str) -> Kept | None:
    kept = context.get("kept")
    return kept if isinstance(kept, Kept) and kept.form == form else None


@register.simple_tag(takes_context=True)
def typed(context: RequestContext, form: str, name: str, otherwise: Any = "") -> Any:
    """Return what was typed into a field of the refused form, or what stands there otherwise."""
    kept = _kept(context, form)
    return otherwise if kept is None else kept.typed.get(name, "")


@register.simple_tag(takes_context=True)
def ticked(context: RequestContext, form: str, name: str, otherwise: Any = False) -> bool:
    """Test whether a box of the refused form was ticked, or is otherwise."""
    kept = _kept(context, form)
    return bool(otherwise) if kept is None else name in kept.typed


@register.simple_tag(takes_context=True)
def refused(context: RequestContext, form: str) -> bool:
    """Test whether this is the form that was refused."""
    return _kept(context, form) is not None


@register.simple_tag(takes_context=True)
def wrong(context: RequestContext, form: str, name: str = "") -> SafeString:
    """Return what is wrong with a field; without a name: with the form as a whole."""
    kept = _kept(context, form)
    if kept is None or not kept.errors.get(name):
        return SafeString("")
    lines = format_html_join(" ", "{}", ((each,) for each in kept.errors[name]))
    if not name:
        return format_html('<div class="note bad" role="alert">{}</div>', lines)
    return format_html(
        '<span class="error" role="alert" data-of="{}" id="wrong-{}-{}">{}</span>',
        name,
        form,
        name,
        lines,
    )


@register.simple_tag(takes_context=True)
def invalid(context: RequestContext, form: str, name: str) -> SafeString:
    """Return the attributes that tie a field to what is wrong with it."""
    kept = _kept(context, form)
    if kept is None or not kept.errors.get(name):
        return SafeString("")
    return format_html(' aria-invalid="true" aria-describedby="wrong-{}-{}"', form, name)


@register.filter
def of(form: str, row_id: object) -> str:
    """Return the name of a form that stands once for each row."""
    return f"{form}-{row_id}"
