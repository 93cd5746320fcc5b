"""The demonstrations that the first page offers; ``manage.py seed_demo`` lays them."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """One that may be chosen."""

    name: str
    title: str | Promise
    about: str | Promise


ALL = (
    Demonstration(
        name="card",
        title=_("One card"),
        about=_(
            "One GPU of 46,068 MiB, shared in fractions: three services and seven trainings in two "
            "departments. Five trainings run, two wait."
        ),
    ),
    Demonstration(
        name="server",
        title=_("One server"),
        about=_(
            "Eight GPUs: production is guaranteed two, development and test six. Whole devices and "
            "fractions side by side."
        ),
    ),
    Demonstration(
        name="racks",
        title=_("Eight nodes"),
        about=_("Eight nodes with eight GPUs each and about sixty light workloads."),
    ),
)
