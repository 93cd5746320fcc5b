"""Forms of the Inference pages: how a service scales, and a new gateway key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from django import forms
from django.utils.translation import gettext_lazy as _

from scheduler.core.autoscale import Metric
from scheduler.operations.gateway_keys import KeyTerms
from scheduler.operations.services import Scaling
from scheduler.queries.gateway_keys import KeyRow
from scheduler.queries.services import ServiceDetail

MICRO = 1_000_000
METRICS = (
    ("", _("Activity alone, or never")),
    (Metric.CONCURRENCY.value, _("Concurrency (requests)")),
    (Metric.THROUGHPUT.value, _("Throughput (requests/s)")),
    (Metric.LATENCY.value, _("Latency (milliseconds)")),
    (Metric.CUSTOM.value, _("A number of its own")),
)


class ScalingForm(forms.Form):
    """How a service scales; ``scaling`` is what it means."""

    min_replicas = forms.IntegerField(label=_("Replicas, at least"), min_value=0)
    max_replicas = forms.IntegerField(label=_("Replicas, at most"), min_value=1)
    metric = forms.ChoiceField(label=_("Another replica by"), choices=METRICS, required=False)
    threshold = forms.IntegerField(
        label=_("above, for each replica"),
        min_value=1,
        help_text=_("Of concurrency and throughput 70 % of it is aimed at."),
    )
    gauge_name = forms.CharField(
        label=_("Name of its own number"),
        required=False,
        max_length=120,
        help_text=_("A gauge on the replicas' metrics page, such as queue_length."),
    )
    hard_limit = forms.IntegerField(
        label=_("Requests in one replica, at most"),
        min_value=0,
        help_text=_("The rest wait, in order. 0: no bound."),
    )
    model_names = forms.CharField(
        label=_("Model names"),
        required=False,
        help_text=_("Separated by commas. Empty: the service's name."),
    )
    stable_window_s = forms.IntegerField(label=_("Window, seconds"), min_value=6, max_value=3600)
    zero_retention_s = forms.IntegerField(
        label=_("Last replica lives on, seconds"), min_value=0, max_value=3600
    )
    scale_down_delay_s = forms.IntegerField(
        label=_("Delay before fewer, seconds"), min_value=0, max_value=3600
    )
    request_timeout_s = forms.IntegerField(
        label=_("Request timeout, seconds"), min_value=1, max_value=86400
    )

    @classmethod
    def initial_of(cls, detail: ServiceDetail) -> dict[str, object]:
        """Return what is set now."""
        row, terms = detail.row, detail.terms
        return {
            "min_replicas": row.min_replicas,
            "max_replicas": row.max_replicas,
            "metric": row.metric,
            "threshold": row.threshold,
            "gauge_name": terms.gauge_name,
            "hard_limit": terms.hard_limit,
            "model_names": ", ".join(row.models),
            "stable_window_s": terms.stable_window_s,
            "zero_retention_s": terms.zero_retention_s,
            "scale_down_delay_s": terms.scale_down_delay_s,
            "request_timeout_s": terms.request_timeout_s,
        }

    def scaling(self, detail: ServiceDetail) -> Scaling:
        """Return what is asked for; what the form does not show stays as it is."""
        data, terms = self.cleaned_data, detail.terms
        names = tuple(name.strip() for name in data["model_names"].split(",") if name.strip())
        return Scaling(
            model_names=names,
            open_to_all=terms.open_to_all,
            metric=Metric(data["metric"]) if data["metric"] else None,
            threshold=data["threshold"],
            target_percent=terms.target_percent,
            gauge_name=data["gauge_name"],
            gauge_path=terms.gauge_path,
            hard_limit=data["hard_limit"],
            stable_window_s=data["stable_window_s"],
            zero_grace_s=min(terms.zero_grace_s, data["stable_window_s"]),
            zero_retention_s=data["zero_retention_s"],
            scale_down_delay_s=data["scale_down_delay_s"],
            request_timeout_s=data["request_timeout_s"],
            drain_s=terms.drain_s,
            waiting_limit=terms.waiting_limit,
        )


class KeyTermsForm(forms.Form):
    """What a gateway key may; ``terms`` is that as an operation takes it."""

    name = forms.CharField(label=_("Name"), max_length=63)
    allowed_models = forms.CharField(
        label=_("Models"),
        required=False,
        help_text=_("Separated by commas. Empty: all of its scope."),
    )
    requests_per_minute = forms.IntegerField(
        label=_("Requests a minute"), min_value=0, initial=0, help_text=_("0: no bound.")
    )
    tokens_per_day = forms.IntegerField(
        label=_("Tokens a day"), min_value=0, initial=0, help_text=_("0: no bound.")
    )
    budget = forms.DecimalField(
        label=_("Budget"), min_value=0, decimal_places=2, initial=0, help_text=_("0: no bound.")
    )
    days = forms.IntegerField(
        label=_("Ends after, days"), min_value=1, max_value=3650, required=False
    )

    @classmethod
    def initial_of(cls, key: KeyRow) -> dict[str, object]:
        """Return what is set now; an end stays where no days are given."""
        return {
            "name": key.name,
            "allowed_models": ", ".join(key.allowed_models),
            "requests_per_minute": key.requests_per_minute,
            "tokens_per_day": key.tokens_per_day,
            "budget": Decimal(key.budget_micro) / MICRO,
        }

    def terms(self, now: datetime, *, ends: datetime | None = None) -> KeyTerms:
        """Return what is asked for; only after ``is_valid``. ``ends``: where no days are given."""
        data = self.cleaned_data
        names = [name.strip() for name in data["allowed_models"].split(",")]
        days: int | None = data["days"]
        budget: Decimal = data["budget"]
        return KeyTerms(
            name=data["name"],
            allowed_models=tuple(name for name in names if name),
            requests_per_minute=data["requests_per_minute"],
            tokens_per_day=data["tokens_per_day"],
            budget_micro=int(budget * MICRO),
            expires_at=now + timedelta(days=days) if days else ends,
        )


class KeyForm(KeyTermsForm):
    """A new gateway key, with what it is for."""

    scope = forms.ChoiceField(label=_("For"))

    def __init__(self, *args: object, scopes: Sequence[tuple[str, str]], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        field = self.fields["scope"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = list(scopes)

    def scope_ids(self) -> tuple[int | None, int | None]:
        """Return (project, department), one of which is None."""
        kind, _, number = self.cleaned_data["scope"].partition("-")
        return (int(number), None) if kind == "project" else (None, int(number))
