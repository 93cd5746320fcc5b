"""The audit log: who changed what, from where, before and after. Append-only."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class AuditEntry(models.Model):
    """One attempt to change something, also a refused one. Written with the change it records."""

    at = models.DateTimeField(_("at"))
    actor = models.CharField(_("who"), max_length=150)
    #: page, api, admin, command, tick.
    door = models.CharField(_("door"), max_length=16)
    #: Where the request came from; empty for the command line and the tick.
    address = models.GenericIPAddressField(_("address"), null=True, blank=True)
    action = models.CharField(_("action"), max_length=60)
    object_kind = models.CharField(_("kind"), max_length=40)
    object_id = models.BigIntegerField(null=True, blank=True)
    object_name = models.CharField(_("object"), max_length=200, blank=True)
    department_id = models.BigIntegerField(null=True, blank=True)
    project_id = models.BigIntegerField(null=True, blank=True)
    before = models.JSONField(_("before"), default=dict)
    after = models.JSONField(_("after"), default=dict)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    #: done or refused.
    result = models.CharField(_("result"), max_length=8, default="done")

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit log")
        indexes = [
            models.Index(name="audit_by_time", fields=["-at"]),
            models.Index(name="audit_by_object", fields=["object_kind", "object_id"]),
            models.Index(name="audit_by_action", fields=["action", "-id"]),
            models.Index(name="audit_by_actor", fields=["actor", "-id"]),
            models.Index(name="audit_by_name", fields=["object_name", "-id"]),
            models.Index(name="audit_by_result", fields=["result", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.actor} {self.action}"
