"""People and what they may do: users, groups, access rules, service accounts, access tokens, sessions."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from access.roles import Role
from access.session_store import SessionStore


class User(AbstractUser):
    """A person or a service account."""

    language = models.CharField(max_length=10, blank=True)
    #: Not a person: it has a ``ServiceAccount``, no password, and comes in by tokens alone.
    service = models.BooleanField(default=False)

    class Meta(AbstractUser.Meta):
        swappable = "AUTH_USER_MODEL"


class ExternalIdentity(models.Model):
    """Who a user is at an identity provider: what it never gives to anyone else."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="external_identities"
    )
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="external_identity_unique", fields=["issuer", "subject"]),
        ]

    def __str__(self) -> str:
        return f"{self.user} at {self.issuer}"


class Group(models.Model):
    """People who get access rules together."""

    name = models.CharField(max_length=100, unique=True)
    #: The name that the identity provider gives this group; empty: its members are kept here alone.
    external_name = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("group")
        verbose_name_plural = _("groups")
        constraints = [
            models.UniqueConstraint(
                name="group_external_name_unique",
                fields=["external_name"],
                condition=~Q(external_name=""),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One user in one group."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    #: Given by the identity provider, which takes it away again; False: given here by a person.
    by_provider = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="membership_unique", fields=["group", "user"]),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.group}"


class AccessRule(models.Model):
    """One role of a user or a group over one scope: the cluster, a department or a project."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="access_rules",
        null=True,
        blank=True,
    )
    group = models.ForeignKey(
        Group, on_delete=models.CASCADE, related_name="access_rules", null=True, blank=True
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
                name="access_rule_has_one_holder",
                condition=Q(user__isnull=False, group__isnull=True)
                | Q(user__isnull=True, group__isnull=False),
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
            models.UniqueConstraint(
                name="access_rule_unique_of_group_on_cluster",
                fields=["group", "role"],
                condition=Q(cluster=True),
            ),
            models.UniqueConstraint(
                name="access_rule_unique_of_group_on_department",
                fields=["group", "role", "department"],
                condition=Q(department__isnull=False),
            ),
            models.UniqueConstraint(
                name="access_rule_unique_of_group_on_project",
                fields=["group", "role", "project"],
                condition=Q(project__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.holder_name}: {self.role}"

    @property
    def holder_name(self) -> str:
        """The name of the user or the group that has the role."""
        return self.group.name if self.group is not None else str(self.user)


class ServiceAccount(models.Model):
    """What a user that is not a person belongs to: the cluster, a department or a project."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="service_account"
    )
    #: Neither: the cluster's. Its rules stay inside this scope.
    department = models.ForeignKey(
        "scheduler.Department", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(
        "scheduler.Project", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    purpose = models.CharField(max_length=200, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="service_account_has_at_most_one_scope",
                condition=Q(department__isnull=True) | Q(project__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return str(self.user)


class AccessToken(models.Model):
    """A secret by which a program acts for a user; it may at most what the user may at that moment."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="access_tokens"
    )
    name = models.CharField(max_length=63)
    #: The first characters, to tell tokens apart; of the whole only the SHA-256 is kept.
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    read_only = models.BooleanField(default=False)
    #: Neither: all scopes of its user.
    department = models.ForeignKey(
        "scheduler.Department", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(
        "scheduler.Project", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_used_from = models.GenericIPAddressField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="access_token_has_at_most_one_scope",
                condition=Q(department__isnull=True) | Q(project__isnull=True),
            ),
        ]
        indexes = [models.Index(name="access_token_by_user", fields=["user", "-id"])]

    def __str__(self) -> str:
        return f"{self.user}: {self.name}"


class Session(AbstractBaseSession):
    """One browser's session; whose, and what its owner is shown of it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="sessions",
    )
    began_us = models.BigIntegerField(default=0)
    seen_us = models.BigIntegerField(default=0)
    address = models.GenericIPAddressField(null=True, blank=True)
    agent = models.CharField(max_length=200, blank=True)

    class Meta(AbstractBaseSession.Meta):
        abstract = False

    @classmethod
    def get_session_store_class(cls) -> type[SessionStore]:
        """Return the engine that keeps its sessions here."""
        return SessionStore
