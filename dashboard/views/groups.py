"""Groups of people: names, members and roles."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from access import groups, listing
from access.models import Group
from access.people import require_system_admin
from access.scopes import UserAuthority
from dashboard import problems
from dashboard.forms.kept import Kept, keep_at, keep_posted
from dashboard.views import signed_in
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused


@login_required
@require_GET
def groups_page(request: HttpRequest) -> HttpResponse:
    """Answer the groups with a role in the reader's scopes; system admins change them."""
    return _page(request)


def _page(request: HttpRequest, *, kept: Kept | None = None) -> HttpResponse:
    authority = _governing(request)
    may_change = listing.sees_everyone(authority)
    return render(
        request,
        "dashboard/groups.html",
        {
            "rows": groups.list_groups(authority=authority),
            "may_change": may_change,
            "people": listing.list_people(authority=authority) if may_change else (),
            "kept": kept,
        },
        status=400 if kept else 200,
    )


@login_required
@require_POST
def create(request: HttpRequest) -> HttpResponse:
    """Make a group."""

    def act(authority: UserAuthority) -> str:
        group = _save(request, authority, None)
        return _("The group {name} is made. It has no members and no role yet.").format(
            name=group.name
        )

    return _carry_out(request, act, form="new")


@login_required
@require_POST
def change(request: HttpRequest, group_id: int) -> HttpResponse:
    """Change a group's names, or delete it."""

    def act(authority: UserAuthority) -> str:
        if request.POST.get("do") == "delete":
            groups.delete_group(group_id=group_id, authority=authority, now=timezone.now())
            return _("The group is deleted; its members lose its roles within seconds.")
        return _("The group {name} is saved.").format(name=_save(request, authority, group_id).name)

    return _carry_out(request, act, form=f"group-{group_id}")


@login_required
@require_POST
def member(request: HttpRequest, group_id: int) -> HttpResponse:
    """Put someone into a group, or take someone out."""

    def act(authority: UserAuthority) -> str:
        # Before a name is looked for: whoever may not do this learns no names.
        require_system_admin(authority)
        name = request.POST.get("username", "").strip()
        user_id = listing.find_user_id(username=name)
        if user_id is None:
            raise NotFound("user")
        what = {"group_id": group_id, "user_id": user_id}
        if request.POST.get("do") == "remove":
            groups.remove_member(**what, authority=authority, now=timezone.now())
            return _("{name} is out of the group.").format(name=name)
        groups.add_member(**what, authority=authority, now=timezone.now())
        return _("{name} is in the group now.").format(name=name)

    return _carry_out(request, act, form=f"member-{group_id}")


def _save(request: HttpRequest, authority: UserAuthority, group_id: int | None) -> Group:
    return groups.save_group(
        group_id=group_id,
        name=request.POST.get("name", ""),
        external_name=request.POST.get("external_name", ""),
        authority=authority,
        now=timezone.now(),
    )


def _governing(request: HttpRequest) -> UserAuthority:
    authority = signed_in.authority(request)
    if not authority.may_anywhere(Action.ACCESS):
        raise Http404
    return authority


def _carry_out(
    request: HttpRequest, act: Callable[[UserAuthority], str], *, form: str
) -> HttpResponse:
    authority = _governing(request)
    try:
        messages.success(request, act(authority))
    except NotFound:
        said = _("There is no such user or group.")
        if "username" in request.POST:
            return _page(request, kept=keep_at(request, form, "username", said))
        messages.error(request, said)
    except Refused as refused:
        return _page(request, kept=keep_posted(request, form, refused.problems))
    except NotPermitted as refused:
        return render(request, "403.html", {"said": problems.refusal(refused)}, status=403)
    return redirect("groups")
