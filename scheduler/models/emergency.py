"""Emergency controls: paused starts, a freeze of reclaim and preemption, one workload held."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from scheduler.core.emergency import ControlKind
from scheduler.models.tenancy import Department, Project
from scheduler.models.workload import Workload


class EmergencyControl(models.Model):
    """One control, with who set it, why and until when. It stays as a record after its end."""

    kind = models.CharField(max_length=6, choices=[(k.value, k.value) for k in ControlKind])
    #: Of a pause: neither is the whole cluster.
    department = models.ForeignKey(
        Department, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    #: Of a hold, whose project stands beside it.
    workload = models.ForeignKey(
        Workload, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    reason = models.CharField(max_length=300)
    set_by = models.CharField(max_length=150)
    set_at = models.DateTimeField()
    until = models.DateTimeField()
    #: When it ended: at ``until``, or before by someone.
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=150, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="emergency_kind_is_known", condition=Q(kind__in=["freeze", "hold", "pause"])
            ),
            models.CheckConstraint(
                name="emergency_scope_is_one",
                condition=Q(department__isnull=True) | Q(project__isnull=True),
            ),
            models.CheckConstraint(
                name="emergency_hold_names_its_workload",
                condition=Q(kind="hold", workload__isnull=False, project__isnull=False)
                | Q(kind="pause", workload__isnull=True)
                | Q(
                    kind="freeze",
                    workload__isnull=True,
                    project__isnull=True,
                    department__isnull=True,
                ),
            ),
            models.CheckConstraint(
                name="emergency_ends_after_it_began", condition=Q(until__gt=F("set_at"))
            ),
        ]
        indexes = [
            models.Index(name="emergency_open", fields=["id"], condition=Q(ended_at__isnull=True))
        ]

    def __str__(self) -> str:
        return f"{self.kind} until {self.until}"
