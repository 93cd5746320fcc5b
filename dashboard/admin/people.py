"""Users and access rules."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminPasswordWidget

from access import people
from access.models import AccessRule, User
from access.roles import Role
from dashboard.admin.base import OperatedAdmin, OperatedForm, stamps
from dashboard.admin.site import site


class UserForm(OperatedForm):
    """A user; the password is set when it is made, and again where one is typed."""

    new_password = forms.CharField(
        label=_("password"),
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_("Needed for a new user. Empty: it stays as it is."),
    )

    class Meta:
        model = User
        fields = ("username", "email", "is_active")


@admin.register(User, site=site)
class UserAdmin(OperatedAdmin):
    """People: make, end, set a password. Their hours and records stay."""

    form = UserForm
    list_display = ("username", "email", "is_active", "is_superuser", "last_login")
    list_filter = ("is_active",)
    search_fields = ("username", "email")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; the name stays."""
        fields = ("username", "email", "new_password")
        return fields if obj is None else (*fields, "is_active")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the name of one that is there: records call people by it."""
        return () if obj is None else ("username",)

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Make a user, or change one."""
        data = form.cleaned_data
        password = data.get("new_password") or ""
        if form.instance.pk is None:
            return people.create_user(
                username=data["username"],
                email=data.get("email", ""),
                password=password,
                **stamps(request),
            )
        user_id = form.instance.pk
        if password:
            people.set_password(user_id=user_id, password=password, **stamps(request))
        return people.change_user(
            user_id=user_id, email=data["email"], is_active=data["is_active"], **stamps(request)
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: an account is ended, its records stay."""
        return False


@admin.register(AccessRule, site=site)
class AccessRuleAdmin(OperatedAdmin):
    """Access rules: give and take. One that is to be different is taken and given anew."""

    list_display = ("user", "group", "role", "cluster", "department", "project", "created_at")
    list_filter = ("role", "department")
    search_fields = ("user__username", "group__name", "project__name", "department__name")
    fields = ("user", "group", "role", "department", "project")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rules with what they name."""
        named = ("user", "group", "department", "project")
        return super().get_queryset(request).select_related(*named)  # type: ignore[no-any-return]

    def carry_out(self, request: HttpRequest, form: Any) -> Model:
        """Give the role; without a department and a project it is over the whole cluster."""
        data = form.cleaned_data
        department, project = data.get("department"), data.get("project")
        user, group = data.get("user"), data.get("group")
        return people.grant(
            user_id=user.pk if user else None,
            group_id=group.pk if group else None,
            grant=people.Grant(
                role=Role(data["role"]),
                department_id=department.pk if department else None,
                project_id=project.pk if project else None,
            ),
            **stamps(request),
        )

    def take_away(self, request: HttpRequest, obj: Any) -> None:
        """Take the role away."""
        people.revoke(rule_id=obj.pk, **stamps(request))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: a rule is taken and given anew."""
        return False
