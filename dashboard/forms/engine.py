"""The part of the submit form that is about a model's server: which one, and what its slice leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from scheduler.core.slice_memory import (
    ASSUMED_FIXED_MIB,
    Division,
    Wish,
    divide,
)
from scheduler.core.units import fraction_mib
from scheduler.operations.engine_templates import TEMPLATES, USUAL_LENGTH, Model
from scheduler.queries.nodes import DeviceSize

ENGINES = (
    ("", _("Any command")),
    *((template.id, template.label) for template in TEMPLATES.values()),
)
MIB_PER_GIB = 1024
#: What an engine is told at least, where a slice leaves nothing: it will say so itself.
LEAST_PERMILLE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How the slice that is asked for divides, on the smallest device of the pool."""

    division: Division
    device_model: str
    #: Whether the fixed cost was measured on this model of GPU; else it is an assumption.
    measured: bool
    knows_weights: bool
    max_tokens: int


class EngineFields(forms.Form):
    """The server of an inference service. The command is made from these where none is given."""

    engine = forms.ChoiceField(label=_("Server"), choices=ENGINES, required=False)
    model = forms.CharField(
        label=_("Served model"),
        required=False,
        max_length=300,
        help_text=_("A folder of a data source, such as weights/tiny, or a name of a hub."),
    )
    weights_gib = forms.DecimalField(
        label=_("Weights, GiB"),
        required=False,
        min_value=Decimal("0.01"),
        max_digits=8,
        decimal_places=2,
        help_text=_("Parameters times bytes each: 2 billion in 16 bits are 3.73 GiB."),
    )
    max_tokens = forms.IntegerField(
        label=_("Longest request, tokens"), required=False, initial=USUAL_LENGTH, min_value=1
    )
    kv_kib = forms.IntegerField(
        label=_("KV cache a token, KiB"),
        required=False,
        min_value=1,
        help_text=_("Layers x KV heads x head size x 4 bytes / 1024. Empty: not known."),
    )

    #: Sizes of devices of the pool; given by the form that has these fields.
    devices: Sequence[DeviceSize] = ()

    def made_command(self) -> list[str]:
        """Return the command of the chosen server; empty where none or no model is chosen."""
        data: dict[str, Any] = self.cleaned_data
        template = TEMPLATES.get(data.get("engine") or "")
        if template is None or not data.get("model"):
            return []
        estimate = self.estimate
        return template.command(
            Model(
                path=data["model"],
                max_tokens=data.get("max_tokens") or USUAL_LENGTH,
                utilization_permille=(
                    max(estimate.division.utilization_permille, LEAST_PERMILLE)
                    if estimate is not None
                    else 900
                ),
            )
        )

    @property
    def estimate(self) -> Estimate | None:
        """Return what the slice leaves; None where no share of a GPU of known size is asked for."""
        data: dict[str, Any] = self.cleaned_data
        device = next(iter(self.devices), None)
        slice_mib = self._slice_mib(device)
        if device is None or not slice_mib:
            return None
        weights_mib = int((data.get("weights_gib") or 0) * MIB_PER_GIB)
        max_tokens = data.get("max_tokens") or USUAL_LENGTH
        return Estimate(
            division=divide(
                Wish(
                    slice_mib=slice_mib,
                    weights_mib=weights_mib,
                    fixed_mib=device.fixed_mib or ASSUMED_FIXED_MIB,
                    max_tokens=max_tokens,
                    kv_bytes_per_token=(data.get("kv_kib") or 0) * 1024,
                )
            ),
            device_model=device.model,
            measured=device.fixed_mib is not None,
            knows_weights=weights_mib > 0,
            max_tokens=max_tokens,
        )

    def _slice_mib(self, device: DeviceSize | None) -> int:
        data: dict[str, Any] = self.cleaned_data
        if data.get("gpu_memory_mib"):
            return int(data["gpu_memory_mib"])
        _count, mgpu = data.get("gpu") or (1, 0)
        if device is None:
            return 0
        return fraction_mib(request_mgpu=mgpu, device_mib=device.memory_mib)
