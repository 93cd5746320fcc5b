"""Service accounts and their tokens, for those who give roles in the scope that owns them."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from access import listing, service_accounts, tokens
from access.scopes import UserAuthority
from dashboard import problems
from dashboard.forms.kept import Kept, keep_form, keep_posted
from dashboard.forms.tokens import TokenForm
from dashboard.views import signed_in
from dashboard.views.scope_names import scope_in
from scheduler.operations.authority import Action, NotPermitted
from scheduler.operations.refused import NotFound, Refused


@login_required
@require_GET
def accounts(request: HttpRequest) -> HttpResponse:
    """Answer the accounts that the reader governs."""
    return _page(request)


@login_required
@require_POST
def create(request: HttpRequest) -> HttpResponse:
    """Make an account."""

    def act(authority: UserAuthority) -> str:
        scope = request.POST.get("scope", "")
        if scope != "cluster" and scope_in(scope) is None:
            raise NotFound("scope")
        made = service_accounts.create_account(
            name=request.POST.get("name", ""),
            purpose=request.POST.get("purpose", "")[:200],
            scope=scope_in(scope),
            authority=authority,
            now=timezone.now(),
        )
        return _("{name} is made and sees nothing until a role is given.").format(
            name=made.user.username
        )

    return _carry_out(request, act, form="new")


@login_required
@require_POST
def end(request: HttpRequest, account_id: int) -> HttpResponse:
    """End an account and its tokens."""

    def act(authority: UserAuthority) -> str:
        ended = service_accounts.end_account(
            account_id=account_id, authority=authority, now=timezone.now()
        )
        return _("{name} and its tokens have ended.").format(name=ended.user.username)

    return _carry_out(request, act)


@login_required
@require_POST
@never_cache
def create_token(request: HttpRequest, account_id: int) -> HttpResponse:
    """Make a token of an account, whose secret is shown this once."""
    authority = _governing(request)
    form, shown = TokenForm(request.POST, scopes=()), f"token-{account_id}"
    try:
        account = service_accounts.find_account(account_id, authority)
        if not form.is_valid():
            return _page(request, kept=keep_form(request, shown, form))
        made = service_accounts.create_token(
            account_id=account.pk,
            terms=form.terms(scope=None),
            authority=authority,
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except NotPermitted as refused:
        return render(request, "403.html", {"said": problems.refusal(refused)}, status=403)
    except Refused as refused:
        if not account.user.is_active:  # it has no form any more
            messages.error(request, " ".join(problems.in_words(each) for each in refused.problems))
            return redirect("service_accounts")
        return _page(request, kept=keep_posted(request, shown, refused.problems))
    return _page(request, made=made)


@login_required
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """End a token of an account."""

    def act(authority: UserAuthority) -> str:
        token = service_accounts.revoke_token(
            token_id=token_id, authority=authority, now=timezone.now()
        )
        return _("{name} is revoked.").format(name=token.name)

    return _carry_out(request, act)


def _governing(request: HttpRequest) -> UserAuthority:
    authority = signed_in.authority(request)
    if not authority.may_anywhere(Action.ACCESS):
        raise Http404
    return authority


def _page(
    request: HttpRequest, *, made: tokens.MadeToken | None = None, kept: Kept | None = None
) -> HttpResponse:
    authority = _governing(request)
    return render(
        request,
        "dashboard/service_accounts.html",
        {
            "rows": service_accounts.list_accounts(authority=authority, now=timezone.now()),
            "scopes": listing.list_scopes(authority=authority),
            "form": TokenForm(scopes=()),
            "made": made,
            "kept": kept,
        },
        status=400 if kept else 200,
    )


def _carry_out(
    request: HttpRequest, act: Callable[[UserAuthority], str], *, form: str = ""
) -> HttpResponse:
    authority = _governing(request)
    try:
        messages.success(request, act(authority))
    except NotFound as error:
        raise Http404 from error
    except Refused as refused:
        if form:
            return _page(request, kept=keep_posted(request, form, refused.problems))
        for each in refused.problems:
            messages.error(request, problems.in_words(each))
    except NotPermitted as refused:
        return render(request, "403.html", {"said": problems.refusal(refused)}, status=403)
    return redirect("service_accounts")
