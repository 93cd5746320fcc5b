"""One's own account: password, open sign-ins, access tokens."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from access import sessions, tokens
from access.listing import list_own_scopes
from access.own_password import change_own_password
from access.token_list import list_tokens
from dashboard.forms import fields
from dashboard.forms.password import PasswordForm
from dashboard.forms.tokens import TokenForm
from dashboard.views import signed_in
from dashboard.views.scope_names import scope_in
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import NotFound, Refused


@login_required
@require_GET
def account(request: HttpRequest) -> HttpResponse:
    """Answer one's own account."""
    return _page(request, _token_form(request))


@login_required
@require_POST
@never_cache
def create_token(request: HttpRequest) -> HttpResponse:
    """Make an access token, whose secret is shown this once."""
    form = _token_form(request, posted=True)
    if not form.is_valid():
        return _page(request, form)
    try:
        made = tokens.create_own(
            terms=form.terms(scope=scope_in(form.cleaned_data["scope"])),
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except NotFound as error:
        raise Http404 from error
    except (Refused, NotPermitted) as refused:
        fields.show(form, refused)
        return _page(request, form)
    return _page(request, _token_form(request), made=made)


@login_required
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """End one of one's own tokens."""
    try:
        token = tokens.revoke_own(
            token_id=token_id, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotFound as error:
        raise Http404 from error
    messages.success(request, _("{name} is revoked.").format(name=token.name))
    return redirect("account")


@login_required
@require_POST
@never_cache
def change_password(request: HttpRequest) -> HttpResponse:
    """Set one's own password; all other sign-ins end."""
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return _page(request, _token_form(request), password_form=form)
    try:
        user = change_own_password(
            session_key=request.session.session_key or "",
            authority=signed_in.authority(request),
            now=timezone.now(),
            **form.cleaned_data,
        )
    except (Refused, NotPermitted) as refused:
        fields.show(form, refused)
        return _page(request, _token_form(request), password_form=form)
    update_session_auth_hash(request, user)
    messages.success(request, _("Your password is changed. All other sign-ins have ended."))
    return redirect("account")


@login_required
@require_POST
def end_other_sessions(request: HttpRequest) -> HttpResponse:
    """Sign out everywhere else."""
    ended = sessions.end_own_other_sessions(
        session_key=request.session.session_key or "",
        authority=signed_in.authority(request),
        now=timezone.now(),
    )
    messages.success(
        request,
        _("Other sign-ins ended: {n}.").format(n=ended),
    )
    return redirect("account")


def _token_form(request: HttpRequest, *, posted: bool = False) -> TokenForm:
    return TokenForm(
        request.POST if posted else None,
        scopes=list_own_scopes(visible=signed_in.visible_to(request)),
    )


def _page(
    request: HttpRequest,
    form: TokenForm,
    *,
    made: tokens.MadeToken | None = None,
    password_form: PasswordForm | None = None,
) -> HttpResponse:
    user = signed_in.user_of(request)
    living = list_tokens(user_ids=[user.pk], now=timezone.now())
    return render(
        request,
        "dashboard/account.html",
        {
            "form": form,
            "made": made,
            "tokens": living.get(user.pk, ()),
            "password_form": password_form or PasswordForm(),
            "has_password": user.has_usable_password(),
            "sessions": sessions.list_sessions(
                user=user, this_key=request.session.session_key or ""
            ),
        },
    )
