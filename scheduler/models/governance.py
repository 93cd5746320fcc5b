"""Rules on idle time and duration, requests to serve, and what people are told."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduler.core.idle import RuleKind
from scheduler.models.cluster import NodePool
from scheduler.models.tenancy import Department, Project
from scheduler.models.workload import Workload


class IdlePolicy(models.Model):
    """How long one kind of work may be idle, and run, in a department or a project.

    A project may only tighten. What counts is copied into a workload when it is submitted.
    """

    department = models.ForeignKey(
        Department, on_delete=models.CASCADE, null=True, blank=True, related_name="idle_policies"
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="idle_policies"
    )
    kind = models.CharField(max_length=30, choices=[(k.value, k.value) for k in RuleKind])
    #: Empty: no rule from here.
    idle_limit_s = models.PositiveIntegerField(null=True, blank=True)
    runtime_limit_s = models.PositiveIntegerField(null=True, blank=True)
    owner_may_keep = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="idle_policy_has_one_scope",
                condition=Q(department__isnull=False, project__isnull=True)
                | Q(department__isnull=True, project__isnull=False),
            ),
            models.CheckConstraint(
                name="idle_policy_kind_is_known",
                condition=Q(kind__in=sorted(k.value for k in RuleKind)),
            ),
            models.UniqueConstraint(
                name="idle_policy_unique_on_department",
                fields=["department", "kind"],
                condition=Q(department__isnull=False),
            ),
            models.UniqueConstraint(
                name="idle_policy_unique_on_project",
                fields=["project", "kind"],
                condition=Q(project__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.department or self.project}: {self.kind}"


class ServeRequest(models.Model):
    """A service that someone may not start and asks for; on approval it becomes a workload."""

    class Status(models.TextChoices):
        OPEN = "open"
        APPROVED = "approved"
        DECLINED = "declined"
        WITHDRAWN = "withdrawn"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="serve_requests")
    pool = models.ForeignKey(NodePool, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=63)
    #: The fields of the submission and of its scaling, as they were sent.
    submission = models.JSONField(default=dict)
    scaling = models.JSONField(default=dict)
    comment = models.CharField(max_length=500, blank=True)
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    decided_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    answer = models.CharField(max_length=500, blank=True)
    workload = models.ForeignKey(
        Workload, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="serve_request_status_is_known",
                condition=Q(status__in=["approved", "declined", "open", "withdrawn"]),
            ),
        ]
        indexes = [models.Index(name="serve_request_by_project", fields=["project", "-id"])]

    def __str__(self) -> str:
        return f"{self.project_id}/{self.name} by {self.requested_by}"


class Notification(models.Model):
    """One thing that one person is told, as code and numbers; sentences are made where it is shown."""

    username = models.CharField(max_length=150)
    at = models.DateTimeField()
    code = models.CharField(max_length=40)
    params = models.JSONField(default=dict)
    workload = models.ForeignKey(
        Workload, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    read_at = models.DateTimeField(null=True, blank=True)
    #: When it was put into the messages that go out; until then it is the outbox.
    sorted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(name="notification_by_user", fields=["username", "-id"]),
            models.Index(
                name="notification_unsorted",
                fields=["username", "at"],
                condition=Q(sorted_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.username}: {self.code}"
