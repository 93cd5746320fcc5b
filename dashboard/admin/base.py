"""A model admin that changes nothing itself: forms try an operation, saving carries it out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Model, QuerySet
from django.forms.models import BaseModelFormSet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextInputWidget

from dashboard import problems
from dashboard.admin.site import authority
from scheduler.core.units import UNLIMITED_MGPU, AmountRefused, format_gpu, parse_gpu
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import NotFound, Refused

#: Fields of problems that have another name in the tables.
COLUMNS = {"quota": "quota_mgpu", "limit": "limit_mgpu", "weight": "weight_milli"}


#: Rows of a list that can be turned to; further ones are found by filters and search.
MOST_COUNTED = 10_000


class _Tried(Exception):
    """Ends the savepoint in which an operation was only tried."""


def sentences(error: Exception) -> list[tuple[str, str]]:
    """Return a refusal as (field, sentence) pairs; an empty field is the form as a whole."""
    if isinstance(error, Refused):
        return [
            (COLUMNS.get(each.field, each.field), problems.in_words(each))
            for each in error.problems
        ]
    if isinstance(error, NotFound):
        return [("", _("It is not there any more."))]
    assert isinstance(error, NotPermitted)
    return [("", problems.refusal(error))]


@contextmanager
def only_trying() -> Iterator[None]:
    """Run what is inside and take it back."""
    try:
        with transaction.atomic():
            yield
            raise _Tried
    except _Tried:
        return


class GpuField(forms.CharField):
    """An amount of GPUs as people write it; milli-GPU inside."""

    def __init__(self, *, unlimited: bool = False, **kwargs: Any) -> None:
        kwargs |= {"required": False, "widget": UnfoldAdminTextInputWidget()}
        super().__init__(**kwargs)
        self.unlimited = unlimited

    def prepare_value(self, value: Any) -> Any:
        """Return milli-GPU as text; no limit is empty."""
        if not isinstance(value, int):
            return value
        return "" if value >= UNLIMITED_MGPU else format_gpu(value)

    def to_python(self, value: Any) -> Any:
        """Return text as milli-GPU."""
        text = super().to_python(value)
        if not text:
            return UNLIMITED_MGPU if self.unlimited else 0
        try:
            return parse_gpu(text, field="gpu")
        except AmountRefused as error:
            raise forms.ValidationError(
                _("Not an amount of GPUs: use a number with at most three places, such as 0.25.")
            ) from error

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Test whether the amounts differ, however they are written."""
        try:
            return bool(self.to_python(data) != initial)
        except forms.ValidationError:
            return True


class WeightField(forms.CharField):
    """A weight as people write it; thousandths inside."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextInputWidget(), **kwargs)

    def prepare_value(self, value: Any) -> Any:
        """Return thousandths as text."""
        return f"{Decimal(value) / 1000:f}" if isinstance(value, int) else value

    def to_python(self, value: Any) -> Any:
        """Return text as thousandths."""
        try:
            scaled = Decimal(super().to_python(value) or "0") * 1000
        except InvalidOperation:
            scaled = Decimal("NaN")
        if not scaled.is_finite() or scaled != scaled.to_integral_value():
            raise forms.ValidationError(_("A weight is a number from 0 to 1000."))
        return int(scaled)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Test whether the weights differ, however they are written."""
        try:
            return bool(self.to_python(data) != initial)
        except forms.ValidationError:
            return True


class OperatedForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that is valid where its operation can be carried out: it is tried and taken back."""

    request: HttpRequest
    model_admin: OperatedAdmin
    #: List editing tries all of its rows together instead.
    tried_alone = True

    def clean(self) -> dict[str, Any]:
        """Try the operation; what it refuses stands at its field."""
        data = super().clean() or self.cleaned_data
        if self.errors or not self.tried_alone:
            return data
        try:
            with only_trying():
                self.model_admin.carry_out(self.request, self)
        except (Refused, NotPermitted, NotFound) as error:
            for field, said in sentences(error):
                self.add_error(field if field in self.fields else None, said)
        return data

    def _post_clean(self) -> None:
        """Leave the instance as it is: only the operation writes, and it has checked everything."""


class TogetherFormSet(BaseModelFormSet):  # type: ignore[type-arg]
    """The rows of a list that is edited: all of them or none."""

    request: HttpRequest
    model_admin: OperatedAdmin

    def clean(self) -> None:
        """Try all changed rows in one operation."""
        changed = [form for form in self.forms if form.has_changed() and not form.errors]
        if not changed:
            return
        try:
            with only_trying():
                self.model_admin.carry_out_together(self.request, changed)
        except (Refused, NotPermitted, NotFound) as error:
            raise forms.ValidationError([said for _field, said in sentences(error)]) from error


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than one turns pages: a table without end opens as fast as a small one."""

    @cached_property
    def count(self) -> int:
        """Return how many rows there are, at most ``MOST_COUNTED``."""
        rows = self.object_list
        if not isinstance(rows, QuerySet):
            return len(rows)
        return rows.order_by()[:MOST_COUNTED].count()


class OperatedAdmin(ModelAdmin):  # type: ignore[misc]
    """Lists, forms and actions whose every change is an operation, with its checks and its audit."""

    form = OperatedForm
    list_per_page = 50
    paginator = BoundedPaginator
    show_full_result_count = False
    warn_unsaved_form = True
    compressed_fields = True

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Do what a form asks for and return the row. Subclasses call operations."""
        raise NotImplementedError

    def carry_out_together(self, request: HttpRequest, forms_: list[Any]) -> None:
        """Do what several rows of a list ask for."""
        for form in forms_:
            self.carry_out(request, form)

    def take_away(self, request: HttpRequest, obj: Any) -> None:
        """Delete one row by its operation. Subclasses that allow it call one."""
        raise NotImplementedError

    def get_form(
        self,
        request: HttpRequest,
        obj: Any = None,
        change: bool = False,  # noqa: FBT001
        **kwargs: Any,
    ) -> Any:
        """Return the form, which knows who asks."""
        form = super().get_form(request, obj, change=change, **kwargs)
        return type(form.__name__, (form,), {"request": request, "model_admin": self})

    def get_changelist_form(self, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the form of one row of an edited list."""
        made = super().get_changelist_form(request, form=OperatedForm, **kwargs)
        return type(
            made.__name__,
            (made,),
            {"request": request, "model_admin": self, "tried_alone": False},
        )

    def get_changelist_formset(self, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the formset of an edited list."""
        kwargs["formset"] = TogetherFormSet
        made = super().get_changelist_formset(request, **kwargs)
        return type(made.__name__, (made,), {"request": request, "model_admin": self})

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001
        """Carry the operation out; rows of an edited list are carried out together, once."""
        if form.tried_alone:
            row = self.carry_out(request, form)
            obj.pk = row.pk
            obj.refresh_from_db()
            return
        together: list[Any] = request.__dict__.setdefault("_edited_rows", [])
        together.append(form)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete by the operation."""
        self.take_away(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete several, all of them or none: what is refused for one is refused for all."""
        with transaction.atomic():
            for obj in queryset:
                self.take_away(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return only the rows themselves: what hangs on them is the operation's to decide."""
        rows = [str(obj) for obj in objs]
        return rows, {str(self.opts.verbose_name_plural): len(rows)}, set(), []

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Answer the list; an edit or action of it happens whole or not at all.

        An action that is not offered here is forbidden, not overlooked.
        """
        asked = request.POST.getlist("action")
        if any(name and name not in self.get_actions(request) for name in asked):
            raise PermissionDenied
        try:
            with transaction.atomic():
                answer = super().changelist_view(request, extra_context)
                edited = request.__dict__.get("_edited_rows")
                if edited:
                    self.carry_out_together(request, edited)
                return answer  # type: ignore[no-any-return]
        except (Refused, NotPermitted, NotFound) as error:
            return self._say(request, error)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Answer the page that asks before deleting; a refusal is said on the way back."""
        try:
            return super().delete_view(request, object_id, extra_context)  # type: ignore[no-any-return]
        except (Refused, NotPermitted, NotFound) as error:
            return self._say(request, error)

    def _say(self, request: HttpRequest, error: Exception) -> HttpResponse:
        stale = messages.get_messages(request)
        for _message in stale:
            continue
        for _field, said in sentences(error):
            messages.error(request, said)
        return HttpResponseRedirect(request.get_full_path())

    # Whoever is let in may do everything; what can't be done at all is said by the subclass.
    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return True: the site has asked already."""
        return True

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True: the site has asked already."""
        return True

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return True: the operation asks for the rights."""
        return True

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True: the operation asks for the rights."""
        return True

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True: the operation asks for the rights."""
        return True

    # The product's own log, written by the operations, is the record.
    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Record nothing here."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Record nothing here."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """Record nothing here."""


def stamps(request: HttpRequest) -> dict[str, Any]:
    """Return what every operation takes: who asks, and when."""
    return {"authority": authority(request), "now": timezone.now()}
