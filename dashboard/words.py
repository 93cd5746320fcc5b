"""Words for codes, in the reader's language. A code without a word raises."""

from __future__ import annotations

from django.utils.translation import gettext as _

from scheduler.core.idle import RuleKind
from scheduler.core.vocabulary import Kind, Phase, Rank
from scheduler.queries import phrases


def kind_name(kind: str) -> str:
    """Return a kind's word."""
    return {
        Kind.TRAINING: _("Training"),
        Kind.DISTRIBUTED: _("Distributed training"),
        Kind.WORKSPACE: _("Workspace"),
        Kind.INFERENCE: _("Inference"),
    }[Kind(kind)]


def phase_name(phase: str) -> str:
    """Return a phase's word."""
    return {
        Phase.PENDING: _("Waiting"),
        Phase.STARTING: _("Starting"),
        Phase.RUNNING: _("Running"),
        Phase.DEGRADED: _("Degraded"),
        Phase.STOPPING: _("Stopping"),
        Phase.STOPPED: _("Stopped"),
        Phase.COMPLETED: _("Finished"),
        Phase.FAILED: _("Failed"),
    }[Phase(phase)]


def rank_name(rank: int) -> str:
    """Return a rank's word."""
    return {
        Rank.HIGH: _("High"),
        Rank.MEDIUM_HIGH: _("Medium high"),
        Rank.MEDIUM: _("Medium"),
        Rank.MEDIUM_LOW: _("Medium low"),
        Rank.LOW: _("Low"),
    }[Rank(rank)]


def rule_kind_name(kind: str) -> str:
    """Return the word for a kind of work that an idle rule is for."""
    return {
        RuleKind.TRAINING: _("Training"),
        RuleKind.PREEMPTIBLE_WORKSPACE: _("Workspace that can be interrupted"),
        RuleKind.NON_PREEMPTIBLE_WORKSPACE: _("Workspace that can not be interrupted"),
    }[RuleKind(kind)]


def role_name(role: str) -> str:
    """Return a role's word."""
    return {
        "system_admin": _("Platform administrator"),
        "department_admin": _("Department administrator"),
        "project_admin": _("Project administrator"),
        "researcher": _("Researcher"),
        "ml_engineer": _("ML engineer"),
        "viewer": _("Viewer"),
    }[role]


def verification_status(status: str) -> str:
    """Return how a run of verifications, or one verification of it, stands."""
    return {
        "queued": _("Waiting to begin"),
        "waiting": _("Not yet"),
        "running": _("Running"),
        "passed": _("Passed"),
        "failed": _("Failed"),
        "cancelled": _("Cancelled"),
        "cut_short": _("Cut short"),
    }[status]


def verification_tone(status: str) -> str:
    """Return the class of the tag that says how it stands."""
    tones = {"passed": "ok", "failed": "evict", "cut_short": "over", "running": "acc"}
    return tones.get(status, "")


def day_name(day: int) -> str:
    """Return the short word of a weekday; Monday is 0."""
    return (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))[day]


def clock_of(minute: int) -> str:
    """Return a minute of the day as a 24-hour time."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def mark_name(name: str) -> str:
    """Return the word for one value of a checkpoint mark."""
    return {
        "epoch": _("Epoch"),
        "step": _("Step"),
        "elapsed_s": _("Elapsed"),
        "best": _("Best"),
        "size_bytes": _("Size"),
    }[name]


def duration(seconds: int) -> str:
    """Return "12 s", "41 min", "3 h 12 min" or "9 d"."""
    return phrases.duration(seconds)
