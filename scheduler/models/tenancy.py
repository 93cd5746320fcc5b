"""Departments and projects, and what each is guaranteed in each node pool."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from scheduler.core.snapshot import UNLIMITED
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import DEFAULT_WEIGHT, Rank
from scheduler.models.cluster import NodePool

RANK_CHOICES = [
    (int(Rank.HIGH), "High"),
    (int(Rank.MEDIUM_HIGH), "Medium High"),
    (int(Rank.MEDIUM), "Medium"),
    (int(Rank.MEDIUM_LOW), "Medium Low"),
    (int(Rank.LOW), "Low"),
]


class Department(models.Model):
    """The upper level of the hierarchy. Deleted ones stay, for their hours."""

    name = models.CharField(_("name"), max_length=63)
    slug = models.SlugField(max_length=80, allow_unicode=True)
    created_at = models.DateTimeField(_("made at"))
    deleted_at = models.DateTimeField(null=True, blank=True)
    scratch = models.BooleanField(default=False)

    class Meta:
        verbose_name = _("department")
        verbose_name_plural = _("departments")
        constraints = [
            models.UniqueConstraint(
                name="department_name_unique_while_it_lives",
                fields=["name"],
                condition=Q(deleted_at__isnull=True),
            ),
            models.UniqueConstraint(name="department_slug_unique", fields=["slug"]),
        ]

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    """One use of a department's share. Its color is its own for life."""

    department = models.ForeignKey(
        Department,
        on_delete=models.PROTECT,
        related_name="projects",
        verbose_name=_("department"),
    )
    name = models.CharField(_("name"), max_length=63)
    slug = models.SlugField(max_length=80, allow_unicode=True)
    #: Number of its hue, from 1; the palette has eight, see static/css/tokens.css.
    color = models.PositiveSmallIntegerField(_("color"), default=1)
    created_at = models.DateTimeField(_("made at"))
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("project")
        verbose_name_plural = _("projects")
        constraints = [
            models.UniqueConstraint(
                name="project_name_unique_while_it_lives",
                fields=["name"],
                condition=Q(deleted_at__isnull=True),
            ),
            models.UniqueConstraint(name="project_slug_unique", fields=["slug"]),
        ]

    def __str__(self) -> str:
        return self.name


class QueueQuota(models.Model):
    """What a queue is guaranteed and may hold in one pool. Limit = quota means no borrowing."""

    pool = models.ForeignKey(
        NodePool, on_delete=models.CASCADE, related_name="+", verbose_name=_("node pool")
    )
    # The names people read are in GPUs: forms and lists show these amounts so.
    quota_mgpu = models.BigIntegerField(_("guarantee (GPU)"), default=0)
    over_quota = models.BooleanField(_("may borrow"), default=True)
    limit_mgpu = models.BigIntegerField(_("limit (GPU)"), default=UNLIMITED_MGPU)
    rank = models.PositiveSmallIntegerField(
        _("rank"), choices=RANK_CHOICES, default=int(Rank.MEDIUM_LOW)
    )
    weight_milli = models.PositiveIntegerField(_("weight"), default=DEFAULT_WEIGHT * 1000)
    cpu_quota_milli = models.BigIntegerField(default=UNLIMITED)
    cpu_limit_milli = models.BigIntegerField(default=UNLIMITED)
    memory_quota_mib = models.BigIntegerField(default=UNLIMITED)
    memory_limit_mib = models.BigIntegerField(default=UNLIMITED)
    #: Rises with each change; an edit made from an older one is told so.
    version = models.PositiveIntegerField(_("version"), default=1)

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(
                name="%(class)s_limit_not_below_quota",
                condition=Q(limit_mgpu__gte=F("quota_mgpu")),
                violation_error_message="The limit cannot be below the guarantee.",
            ),
            models.CheckConstraint(
                name="%(class)s_quota_not_negative", condition=Q(quota_mgpu__gte=0)
            ),
            models.CheckConstraint(
                name="%(class)s_rank_is_known",
                condition=Q(rank__gte=int(Rank.LOW), rank__lte=int(Rank.HIGH)),
            ),
        ]


class DepartmentQuota(QueueQuota):
    """A department's row in one pool."""

    department = models.ForeignKey(
        Department,
        on_delete=models.CASCADE,
        related_name="quotas",
        verbose_name=_("department"),
    )

    class Meta(QueueQuota.Meta):
        verbose_name = _("quota of a department")
        verbose_name_plural = _("quotas of departments")
        constraints = [
            *QueueQuota.Meta.constraints,
            models.UniqueConstraint(
                name="department_has_one_quota_per_pool", fields=["department", "pool"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.department_id} in {self.pool_id}"


class ProjectQuota(QueueQuota):
    """A project's row in one pool."""

    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, related_name="quotas", verbose_name=_("project")
    )

    class Meta(QueueQuota.Meta):
        verbose_name = _("quota of a project")
        verbose_name_plural = _("quotas of projects")
        constraints = [
            *QueueQuota.Meta.constraints,
            models.UniqueConstraint(
                name="project_has_one_quota_per_pool", fields=["project", "pool"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id} in {self.pool_id}"
