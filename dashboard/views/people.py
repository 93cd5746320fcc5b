"""People and their roles: who may what where, given and taken inside one's own scope."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from access import groups, listing, people
from access.roles import Role
from access.scopes import UserAuthority
from dashboard import problems, words
from dashboard.forms.kept import Kept, keep_posted
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused


@login_required
@require_GET
def people_page(request: HttpRequest) -> HttpResponse:
    """Answer who has which role where; only for those who may give some."""
    return _page(request)


def _page(request: HttpRequest, *, kept: Kept | None = None) -> HttpResponse:
    authority = _governing(request)
    text = request.GET.get("q", "").strip()[:100]
    scopes = listing.list_scopes(authority=authority)
    offered = {role for scope in scopes for role in scope.roles}
    return render(
        request,
        "dashboard/people.html",
        {
            "rows": listing.list_people(authority=authority, text=text),
            "text": text,
            "give_kind": request.GET.get("to", ""),
            "groups": groups.list_groups(authority=authority),
            "give_to": request.GET.get("give", "")[:150],
            "scopes": scopes,
            "roles": [
                (role.value, words.role_name(role)) for role in reversed(Role) if role in offered
            ],
            "may_make": authority.may(Action.ACCESS) and authority.may(Action.NODES),
            "kept": kept,
        },
        status=400 if kept else 200,
    )


@login_required
@require_POST
def create(request: HttpRequest) -> HttpResponse:
    """Make a user."""

    def act(authority: UserAuthority) -> str:
        made = people.create_user(
            username=request.POST.get("username", ""),
            email=request.POST.get("email", ""),
            password=request.POST.get("password", ""),
            authority=authority,
            now=timezone.now(),
        )
        return _("{name} can sign in now and sees nothing until a role is given.").format(
            name=made.username
        )

    return _carry_out(request, act, form="new")


@login_required
@require_POST
def change(request: HttpRequest, user_id: int) -> HttpResponse:
    """End an account, renew it, or set its password."""

    def act(authority: UserAuthority) -> str:
        password = request.POST.get("password")
        if password is not None:
            user = people.set_password(
                user_id=user_id, password=password, authority=authority, now=timezone.now()
            )
            if user.pk == authority.user_id:
                update_session_auth_hash(request, user)
            return _("The password of {name} is set; its sessions have ended.").format(
                name=user.username
            )
        user = people.change_user(
            user_id=user_id,
            email=request.POST.get("email", ""),
            is_active=request.POST.get("active") == "yes",
            authority=authority,
            now=timezone.now(),
        )
        if user.is_active:
            return _("{name} can sign in again.").format(name=user.username)
        return _("The account of {name} has ended. Its records stay.").format(name=user.username)

    return _carry_out(request, act, form=f"user-{user_id}")


@login_required
@require_POST
def grant(request: HttpRequest) -> HttpResponse:
    """Give a role over a scope."""

    def act(authority: UserAuthority) -> str:
        username = request.POST.get("username", "").strip()
        role = request.POST.get("role", "")
        people.grant(
            **_holder(request.POST.get("to", "user"), username),
            grant=_grant(role, request.POST.get("scope", "")),
            authority=authority,
            now=timezone.now(),
        )
        return _("{name} is {role} now.").format(name=username, role=words.role_name(role))

    return _carry_out(
        request, act, form="grant", missing=_("There is no such user, group or scope.")
    )


@login_required
@require_POST
def revoke(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Take a role away."""

    def act(authority: UserAuthority) -> str:
        people.revoke(rule_id=rule_id, authority=authority, now=timezone.now())
        return _("The role is taken away; open pages lose it within seconds.")

    return _carry_out(request, act)


def _governing(request: HttpRequest) -> UserAuthority:
    authority = signed_in.authority(request)
    if not authority.may_anywhere(Action.ACCESS):
        raise Http404
    return authority


def _carry_out(
    request: HttpRequest,
    act: Callable[[UserAuthority], str],
    *,
    form: str = "",
    missing: str = "",
) -> HttpResponse:
    authority = _governing(request)
    try:
        messages.success(request, act(authority))
    except NotFound as error:
        if not missing:
            raise Http404 from error
        return _page(request, kept=keep_posted(request, form, missing))
    except Refused as refused:
        if form:
            names = {"user": "username"}
            return _page(request, kept=keep_posted(request, form, refused.problems, names=names))
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
    except NotPermitted as refused:
        return render(request, "403.html", {"said": problems.refusal(refused)}, status=403)
    return redirect("people")


def _holder(kind: str, name: str) -> dict[str, int]:
    """Return to whom a role is given."""
    field, found = "user_id", None
    if kind == "group":
        field, found = "group_id", groups.find_group_id(name=name)
    else:
        found = listing.find_user_id(username=name)
    if found is None:
        raise NotFound("user")
    return {field: found}


def _grant(role_name: str, scope: str) -> people.Grant:
    if role_name not in set(Role):
        raise NotFound("role")
    role = Role(role_name)
    kind, _dash, number = scope.partition("-")
    scope_id = optional_int(number)
    if kind == "department" and scope_id is not None:
        return people.Grant(role=role, department_id=scope_id)
    if kind == "project" and scope_id is not None:
        return people.Grant(role=role, project_id=scope_id)
    if scope == "cluster":
        return people.Grant(role=role)
    raise NotFound("scope")
