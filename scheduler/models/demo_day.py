"""The demonstration's day: whether it is wanted, and how far it has come. One row."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class DemoDay(models.Model):
    """Twenty-four hours in some minutes, on a loop, carried out by a process of its own."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    wanted = models.BooleanField(default=False)
    started_by = models.CharField(max_length=150, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    #: How long one day takes.
    day_s = models.PositiveIntegerField(default=600)
    #: Where the product answered whoever asked; used where the data folder does not say it.
    url = models.CharField(max_length=200, blank=True)
    #: When a process was last begun for it.
    spawned_at = models.DateTimeField(null=True, blank=True)

    # What its process says, each second.
    said_at = models.DateTimeField(null=True, blank=True)
    #: Days that have passed, and the minute of this one.
    days = models.PositiveIntegerField(default=0)
    minute = models.PositiveSmallIntegerField(default=0)
    requests = models.PositiveBigIntegerField(default=0)
    errors = models.PositiveBigIntegerField(default=0)
    trouble = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="demo_day_is_one_row", condition=Q(id=1)),
            models.CheckConstraint(name="demo_day_minute_in_day", condition=Q(minute__lt=1440)),
            models.CheckConstraint(name="demo_day_takes_a_minute", condition=Q(day_s__gte=60)),
        ]

    def __str__(self) -> str:
        return f"day {self.days}, minute {self.minute}"
