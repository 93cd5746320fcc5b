"""Addresses of people, programs and how they come in."""

from __future__ import annotations

from django.contrib.auth import views as auth
from django.urls import path

from dashboard.views import account, groups, provider, service_accounts, sign_in

urlpatterns = [
    path("account", account.account, name="account"),
    path("account/password", account.change_password, name="own_password"),
    path("account/sessions/end", account.end_other_sessions, name="sessions_end"),
    path("account/tokens", account.create_token, name="token_create"),
    path("account/tokens/<int:token_id>/revoke", account.revoke_token, name="token_revoke"),
    path("login", sign_in.SignIn.as_view(), name="login"),
    path("login/provider", provider.ToProvider.as_view(), name="to_provider"),
    path("login/provider/back", provider.FromProvider.as_view(), name="from_provider"),
    path("logout", auth.LogoutView.as_view(), name="logout"),
    path("manage/groups", groups.groups_page, name="groups"),
    path("manage/groups/new", groups.create, name="group_create"),
    path("manage/groups/<int:group_id>", groups.change, name="group_change"),
    path("manage/groups/<int:group_id>/members", groups.member, name="group_member"),
    path("manage/service-accounts", service_accounts.accounts, name="service_accounts"),
    path("manage/service-accounts/new", service_accounts.create, name="service_account_create"),
    path(
        "manage/service-accounts/<int:account_id>/end",
        service_accounts.end,
        name="service_account_end",
    ),
    path(
        "manage/service-accounts/<int:account_id>/tokens",
        service_accounts.create_token,
        name="service_token_create",
    ),
    path(
        "manage/service-accounts/tokens/<int:token_id>/revoke",
        service_accounts.revoke_token,
        name="service_token_revoke",
    ),
]
