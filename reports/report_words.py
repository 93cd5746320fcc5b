"""Words for the choices of a report, in the reader's language. A code without a word raises."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from reports.asked import Preset
from reports.consumption import Segment
from reports.intervals import Behind
from reports.periods import Bucket
from reports.savings import Assumptions
from scheduler.core.vocabulary import Readers


def choices() -> dict[str, list[tuple[str, str]]]:
    """Return the choices of the form: code and word."""
    return {
        "period": [(one.value, preset_name(one)) for one in Preset],
        "by": [(one.value, segment_name(one)) for one in Segment],
        "step": [(one.value, bucket_name(one)) for one in Bucket],
    }


def preset_name(preset: Preset) -> str:
    """Return a period's word."""
    return {
        Preset.TODAY: _("Today"),
        Preset.YESTERDAY: _("Yesterday"),
        Preset.DAYS_7: _("Last 7 days"),
        Preset.DAYS_30: _("Last 30 days"),
        Preset.LAST_WEEK: _("Last week"),
        Preset.THIS_MONTH: _("This month"),
        Preset.LAST_MONTH: _("Last month"),
        Preset.CUSTOM: _("From – until"),
    }[preset]


def segment_name(segment: Segment) -> str:
    """Return a segment's word."""
    return {
        Segment.CLUSTER: _("Cluster"),
        Segment.DEPARTMENT: _("Department"),
        Segment.PROJECT: _("Project"),
        Segment.POOL: _("Node pool"),
        Segment.WORKLOAD: _("Workload"),
        Segment.USER: _("User"),
    }[segment]


def behind_names() -> dict[Behind, str]:
    """Return the words for what stands behind figures, in order."""
    return {
        Behind.HELD: _("Held"),
        Behind.ACTIVITY: _("Idle and active"),
        Behind.GUARANTEE: _("Guaranteed"),
    }


def bucket_name(bucket: Bucket) -> str:
    """Return a step's word."""
    return {
        Bucket.WHOLE: _("Whole period"),
        Bucket.HOUR: _("By hour"),
        Bucket.DAY: _("By day"),
        Bucket.WEEK: _("By week"),
        Bucket.MONTH: _("By month"),
    }[bucket]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One assumption of the savings page."""

    name: str
    value: int
    label: str
    hint: str = ""
    range: bool = False


def assumption_fields(values: Assumptions) -> list[Field]:
    """Return the fields of the savings page with their values."""
    labels = {
        "hardware": (_("Hardware"), _("What it was bought for")),
        "running_a_month": (_("Running cost a month"), _("Power, room, people")),
        "years": (_("Years"), ""),
        "inference_percent": (_("Fixed share for inference, %"), _("The rest is for training")),
        "needed_percent": (
            _("Needed for inference by day, %"),
            _("What its answers take when people ask"),
        ),
        "hours_a_day": (_("Hours of use a day"), ""),
        "days_a_week": (_("Days of use a week"), _("5: nobody asks on weekends")),
        "holidays": (_("Holidays a year"), _("Of the days of use")),
    }
    return [
        Field(
            name=name,
            value=getattr(values, name),
            label=text,
            hint=hint,
            range=name.endswith("_percent"),
        )
        for name, (text, hint) in labels.items()
    ]


def readers_name(readers: str) -> str:
    """Return who reads a saved report."""
    return {
        Readers.ME: _("only me"),
        Readers.UNIT: _("everyone who sees its units"),
        Readers.ALL: _("everyone who is signed in"),
    }[Readers(readers)]


def every_name(every: str) -> str:
    """Return the word for how often a report is made."""
    return {"day": _("Each day"), "week": _("Each week"), "month": _("Each month")}[every]


def column_name(name: str) -> str:
    """Return the word for a column of a saved report."""
    return {
        "name": _("Unit"),
        "department": _("Department"),
        "bucket_start": _("Begin"),
        "gpu_allocation_hours": _("Allocation h"),
        "gpu_deserved_quota_hours": _("Guarantee h"),
        "gpu_over_quota_hours": _("Over quota h"),
        "gpu_unused_guarantee_hours": _("Unused guarantee h"),
        "gpu_idle_hours": _("Idle h"),
        "gpu_unknown_hours": _("Unknown h"),
        "cost": _("Cost"),
        "idle_cost": _("Idle cost"),
    }[name]
