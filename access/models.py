"""People and what they may do: users and access rules."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from access.roles import Role


class User(AbstractUser):
    """A person or a service account."""

    language = models.CharField(max_length=10, blank=True)

    class Meta(AbstractUser.Meta):
        swappable = "AUTH_USER_MODEL"


class AccessRule(models.Model):
    """One role over exactly one scope: the cluster, a department or a project, and all below it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="access_rules"
    )
    role = models.CharField(max_length=20, choices=[(r.value, r.value) for r in Role])
    cluster = models.BooleanField(default=False)
    department = models.ForeignKey(
        "scheduler.Department", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(
        "scheduler.Project", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("access rule")
        verbose_name_plural = _("access rules")
        constraints = [
            models.CheckConstraint(
                name="access_rule_has_one_scope",
                condition=Q(cluster=True, department__isnull=True, project__isnull=True)
                | Q(cluster=False, department__isnull=False, project__isnull=True)
                | Q(cluster=False, department__isnull=True, project__isnull=False),
            ),
            models.CheckConstraint(
                name="access_rule_role_is_known",
                condition=Q(role__in=sorted(r.value for r in Role)),
            ),
            models.UniqueConstraint(
                name="access_rule_unique_on_cluster",
                fields=["user", "role"],
                condition=Q(cluster=True),
            ),
            models.UniqueConstraint(
                name="access_rule_unique_on_department",
                fields=["user", "role", "department"],
                condition=Q(department__isnull=False),
            ),
            models.UniqueConstraint(
                name="access_rule_unique_on_project",
                fields=["user", "role", "project"],
                condition=Q(project__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.role}"
