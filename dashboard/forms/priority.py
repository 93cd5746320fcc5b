"""The form that changes a workload's priority and whether it may be interrupted."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from dashboard.forms.workload import INTERRUPTIBLE, PRIORITIES
from scheduler.queries.workloads import WorkloadDetail

YES, NO = "yes", "no"


class PriorityForm(forms.Form):
    """What a person chooses; ``explicit`` is what the second field means."""

    priority = forms.TypedChoiceField(label=_("Priority"), coerce=int)
    preemptible = forms.ChoiceField(
        label=_("May be interrupted"),
        choices=INTERRUPTIBLE,
        required=False,
        help_text=_(
            "What may be interrupted may borrow; what may not stays within the guarantee, and can "
            "then wait for ever in a project that is guaranteed nothing."
        ),
    )

    def __init__(self, *args: object, detail: WorkloadDetail, **kwargs: object) -> None:
        row = detail.row
        by_hand = (YES if row.preemptible else NO) if detail.preemptible_set else ""
        kwargs.setdefault("initial", {"priority": row.priority, "preemptible": by_hand})
        # The page may hold the form of a new workload too.
        super().__init__(*args, auto_id="change-%s", **kwargs)  # type: ignore[arg-type,misc]
        field = self.fields["priority"]
        assert isinstance(field, forms.ChoiceField)
        levels: list[tuple[object, object]] = [level for level in PRIORITIES if level[0]]
        if row.priority not in dict(levels):
            levels.append((row.priority, str(row.priority)))
        field.choices = levels
        for name, bound in self.fields.items():
            bound.widget.attrs["aria-describedby"] = f"about-{name}"

    @property
    def explicit(self) -> bool | None:
        """Return what was set by hand; only after ``is_valid``."""
        return {YES: True, NO: False}.get(self.cleaned_data["preemptible"])
