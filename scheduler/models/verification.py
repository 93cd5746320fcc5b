"""Runs of the verifications: which, asked for by whom, what became of each, line by line."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class VerificationRun(models.Model):
    """One run of one or more verifications, from the page or the command line. One at a time."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        PASSED = "passed"
        FAILED = "failed"
        CANCELLED = "cancelled"
        #: Its process ended before it did.
        CUT_SHORT = "cut_short"

    numbers = models.JSONField(default=list)
    layout = models.CharField(max_length=20)
    requested_by = models.CharField(max_length=150)
    door = models.CharField(max_length=16)
    requested_at = models.DateTimeField()
    #: Where the product answered whoever asked; used where the data folder does not say it.
    url = models.CharField(max_length=200, blank=True)
    #: When a process was last begun for it.
    spawned_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    cancelled_by = models.CharField(max_length=150, blank=True)
    trouble = models.TextField(blank=True)
    #: 1 while it waits or runs, empty afterwards: what makes it the only one.
    slot = models.PositiveSmallIntegerField(null=True, blank=True, default=1, unique=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="verification_run_status_is_known",
                condition=Q(
                    status__in=["cancelled", "cut_short", "failed", "passed", "queued", "running"]
                ),
            ),
            models.CheckConstraint(
                name="verification_run_holds_slot_while_open",
                condition=Q(slot=1, status__in=["queued", "running"])
                | (Q(slot__isnull=True) & ~Q(status__in=["queued", "running"])),
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}: {self.status}"


class VerificationResult(models.Model):
    """What became of one verification in a run."""

    class Status(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        PASSED = "passed"
        FAILED = "failed"
        CANCELLED = "cancelled"
        CUT_SHORT = "cut_short"

    run = models.ForeignKey(VerificationRun, on_delete=models.CASCADE, related_name="results")
    position = models.PositiveSmallIntegerField()
    number = models.CharField(max_length=20)
    title = models.CharField(max_length=200)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.WAITING)
    #: The scratch pool while it is there.
    pool_name = models.CharField(max_length=63, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    trouble = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="verification_result_once_a_run", fields=["run", "position"]
            ),
            models.CheckConstraint(
                name="verification_result_status_is_known",
                condition=Q(
                    status__in=["cancelled", "cut_short", "failed", "passed", "running", "waiting"]
                ),
            ),
        ]
        indexes = [models.Index(name="verification_by_number", fields=["number", "-id"])]

    def __str__(self) -> str:
        return f"{self.number}: {self.status}"


class VerificationLine(models.Model):
    """One line of a verification as it came: what was given, done, checked, or printed by its work."""

    class Kind(models.TextChoices):
        GIVEN = "given"
        WHEN = "when"
        CHECK = "check"
        STEP = "step"
        LOG = "log"

    result = models.ForeignKey(VerificationResult, on_delete=models.CASCADE, related_name="lines")
    at = models.DateTimeField()
    kind = models.CharField(max_length=5, choices=Kind.choices)
    #: Sentences as ``scheduler.management.verify.said.to_json`` gives them; output as text.
    body = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(name="verification_line_in_order", fields=["result", "id"])]

    def __str__(self) -> str:
        return f"{self.kind} of {self.result_id}"
