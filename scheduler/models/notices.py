"""How people are told: what is for many, what each wants where, and what is on its way."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from scheduler.core.notices import DEFAULTS, KIND_OF, ChannelType, Kind
from scheduler.models.tenancy import Department, Project


class Announcement(models.Model):
    """Something to be told to all who may do something somewhere; written with the fact itself.

    Who that is, is found out a moment later: each gets a notification of its own.
    """

    at = models.DateTimeField()
    code = models.CharField(max_length=40)
    params = models.JSONField(default=dict)
    #: The action that those who are told may do there, or "see".
    audience = models.CharField(max_length=20)
    #: Neither: the whole cluster.
    department = models.ForeignKey(
        Department, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    #: Whoever did it knows already.
    skip_username = models.CharField(max_length=150, blank=True)
    told_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                name="announcement_untold", fields=["id"], condition=Q(told_at__isnull=True)
            )
        ]

    def __str__(self) -> str:
        return f"{self.code} for {self.audience}"


class NoticeSettings(models.Model):
    """What one person wants to be told where. Without a row the defaults are in force."""

    username = models.CharField(max_length=150, unique=True)
    #: By kind: the names of the channels. Kinds that are missing have their defaults.
    choices = models.JSONField(default=dict)
    #: So long notices are gathered into one message.
    digest_s = models.PositiveIntegerField(default=30)

    def __str__(self) -> str:
        return self.username

    def channels_for(self, code: str) -> tuple[str, ...]:
        """Return the names of the channels that a notice goes to, the page among them or not."""
        return self.channels_for_kind(KIND_OF.get(code, Kind.STATE))

    def channels_for_kind(self, kind: Kind) -> tuple[str, ...]:
        """Return the names of the channels of a kind."""
        return tuple(self.choices.get(kind.value, DEFAULTS[kind]))


class NoticeChannel(models.Model):
    """A way to one person outside of the pages. Addresses and secrets are sealed."""

    username = models.CharField(max_length=150)
    type = models.CharField(max_length=8, choices=[(t.value, t.value) for t in ChannelType])
    #: What may be shown of the address: the host of a webhook.
    shown = models.CharField(max_length=200, blank=True)
    sealed = models.BinaryField(default=bytes)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="notice_channel_once", fields=["username", "type"]),
            models.CheckConstraint(
                name="notice_channel_type_is_known",
                condition=Q(type__in=["email", "slack", "webhook"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.username}: {self.type}"


class NoticeDelivery(models.Model):
    """One message on one channel: sent at least once, always with the same id."""

    class Status(models.TextChoices):
        WAITING = "waiting"
        SENT = "sent"
        DEAD = "dead"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    channel = models.ForeignKey(NoticeChannel, on_delete=models.CASCADE, related_name="deliveries")
    #: Ids of the notifications in it.
    notices = models.JSONField(default=list)
    created_at = models.DateTimeField()
    status = models.CharField(max_length=7, choices=Status.choices, default=Status.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    #: When it is tried next. While someone tries it, when it counts as untried again.
    next_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="notice_delivery_status_is_known",
                condition=Q(status__in=["dead", "sent", "waiting"]),
            )
        ]
        indexes = [
            models.Index(
                name="notice_delivery_waiting", fields=["next_at"], condition=Q(status="waiting")
            )
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.status}"
