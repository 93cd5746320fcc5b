"""Assets: data sources, environments, credentials and templates, and the copies that work keeps of them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from scheduler.core.vocabulary import AssetKind
from scheduler.models.tenancy import Department, Project
from scheduler.models.workload import Workload

KINDS = [(kind.value, kind.value) for kind in AssetKind]


class SealedSecret(models.Model):
    """The values of a credential at one time, encrypted. Erased once no work may need them."""

    #: Empty once erased.
    sealed = models.BinaryField(blank=True, default=b"")
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"secret {self.pk}"


class Asset(models.Model):
    """One definition with its scope: neither department nor project is the whole cluster."""

    kind = models.CharField(_("kind"), max_length=12, choices=KINDS)
    name = models.CharField(_("name"), max_length=63)
    description = models.CharField(_("description"), max_length=300, blank=True)
    department = models.ForeignKey(
        Department, on_delete=models.PROTECT, null=True, blank=True, related_name="assets"
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="assets"
    )
    #: By kind: ``scheduler/operations/asset_definitions.py``. Never a secret.
    definition = models.JSONField(default=dict)
    secret = models.ForeignKey(
        SealedSecret, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    #: Rises with each change; an edit made from an older one is told so.
    version = models.PositiveIntegerField(default=1)
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField()
    updated_by = models.CharField(max_length=150, blank=True)
    updated_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)
    #: Made for a verification and removed after it; shown only where scratch trees are.
    scratch = models.BooleanField(default=False)

    class Meta:
        verbose_name = _("asset")
        verbose_name_plural = _("assets")
        constraints = [
            models.CheckConstraint(
                name="asset_kind_is_known",
                condition=Q(kind__in=sorted(kind.value for kind in AssetKind)),
            ),
            models.CheckConstraint(
                name="asset_has_one_scope",
                condition=Q(department__isnull=True) | Q(project__isnull=True),
            ),
            models.CheckConstraint(
                name="asset_secret_is_a_credentials",
                condition=Q(secret__isnull=True) | Q(kind=AssetKind.CREDENTIAL.value),
            ),
            models.UniqueConstraint(
                name="asset_name_unique_in_cluster",
                fields=["kind", "name"],
                condition=Q(deleted_at__isnull=True, department__isnull=True, project__isnull=True),
            ),
            models.UniqueConstraint(
                name="asset_name_unique_in_department",
                fields=["kind", "department", "name"],
                condition=Q(deleted_at__isnull=True, department__isnull=False),
            ),
            models.UniqueConstraint(
                name="asset_name_unique_in_project",
                fields=["kind", "project", "name"],
                condition=Q(deleted_at__isnull=True, project__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class WorkloadAsset(models.Model):
    """What a workload keeps of an asset: the definition as it was when it was submitted."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="assets")
    asset = models.ForeignKey(Asset, on_delete=models.PROTECT, related_name="uses")
    kind = models.CharField(max_length=12, choices=KINDS)
    name = models.CharField(max_length=63)
    definition = models.JSONField(default=dict)
    secret = models.ForeignKey(
        SealedSecret, on_delete=models.PROTECT, null=True, blank=True, related_name="uses"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="workload_names_an_asset_once", fields=["workload", "kind", "name"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
