"""What one was told, where one wants to be told what, and the messages on their way."""

from __future__ import annotations

import secrets
import uuid

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from dashboard import problems, words
from dashboard.views import signed_in
from dashboard.views.numbers import optional_int
from notices import targets
from notices.targets import TargetRefused
from scheduler.core.notices import CHANNELS, PAGE, ChannelType, Kind
from scheduler.operations import deliveries
from scheduler.operations import notices as operations
from scheduler.operations.refused import NotFound, Refused
from scheduler.queries import notices as queries


@login_required
@require_http_methods(["GET", "POST"])
def notices(request: HttpRequest) -> HttpResponse:
    """Answer what one was told; a POST marks it as seen."""
    username = signed_in.user_of(request).get_username()
    if request.method == "POST":
        operations.mark_seen(username=username, now=timezone.now())
        return redirect("notices")
    rows = queries.list_notices(username=username, visible=signed_in.visible_to(request))
    return render(
        request,
        "dashboard/notices.html",
        {"rows": rows, "has_unread": any(row.unread for row in rows)},
    )


@login_required
@require_http_methods(["GET", "POST"])
def notice_settings(request: HttpRequest) -> HttpResponse:
    """Answer what goes where, one's channels and messages; a POST sets what goes where."""
    if request.method == "POST":
        choices = {kind.value: request.POST.getlist(f"kind-{kind.value}") for kind in Kind}
        digest_s = optional_int(request.POST.get("digest_s"))
        try:
            operations.set_choices(
                choices=choices,
                digest_s=-1 if digest_s is None else digest_s,
                authority=signed_in.authority(request),
                now=timezone.now(),
            )
        except Refused as refused:
            _say(request, refused)
        else:
            messages.success(request, _("Saved."))
        return redirect("notice_settings")
    return _page(request)


@login_required
@require_POST
def channel(request: HttpRequest) -> HttpResponse:
    """Set one's channel of a type. The secret of a webhook is made here, and shown this once."""
    type_ = request.POST.get("type", "")
    if type_ not in list(ChannelType):
        raise Http404
    sealed: dict[str, str] = {}
    shown = ""
    if type_ == ChannelType.EMAIL:
        if not (settings.EMAIL_HOST and signed_in.user_of(request).email):
            messages.error(request, _("Your account has no address, or no mail server is set."))
            return redirect("notice_settings")
    else:
        url = request.POST.get("url", "").strip()
        try:
            shown = targets.resolve(url).host
        except TargetRefused as refused:
            return _page(request, error=words.target_refusal(refused.code), url=url, of=type_)
        sealed["url"] = url
    if type_ == ChannelType.WEBHOOK:
        sealed["secret"] = secrets.token_urlsafe(32)
    deliveries.save_channel(
        type=type_,
        shown=shown,
        secrets=sealed,
        authority=signed_in.authority(request),
        now=timezone.now(),
    )
    if "secret" in sealed:
        return _page(request, secret=sealed["secret"])
    messages.success(request, _("The channel is set."))
    return redirect("notice_settings")


@login_required
@require_POST
def remove_channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Take one's channel away."""
    try:
        deliveries.remove_channel(
            channel_id=channel_id, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotFound as error:
        raise Http404 from error
    messages.success(request, _("The channel is taken away."))
    return redirect("notice_settings")


@login_required
@require_POST
def try_channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Send a message without notices."""
    try:
        deliveries.send_test(
            channel_id=channel_id, authority=signed_in.authority(request), now=timezone.now()
        )
    except NotFound as error:
        raise Http404 from error
    messages.success(request, _("A test is on its way; what becomes of it stands below."))
    return redirect("notice_settings")


@login_required
@require_POST
def send_again(request: HttpRequest) -> HttpResponse:
    """Try a dead message anew."""
    try:
        deliveries.send_again(
            delivery_id=uuid.UUID(request.POST.get("delivery", "")),
            authority=signed_in.authority(request),
            now=timezone.now(),
        )
    except (NotFound, ValueError) as error:
        raise Http404 from error
    messages.success(request, _("It is tried again."))
    return redirect("notice_settings")


def _page(
    request: HttpRequest, *, secret: str = "", error: str = "", url: str = "", of: str = ""
) -> HttpResponse:
    user = signed_in.user_of(request)
    username = user.get_username()
    chosen = queries.settings_of(username=username)
    own = {row.type: row for row in queries.list_channels(username=username)}
    return render(
        request,
        "dashboard/notice_settings.html",
        {
            "kinds": [
                {
                    "kind": kind.value,
                    "name": words.notice_kind(kind),
                    "boxes": [
                        {
                            "channel": name,
                            "there": name == PAGE or name in own,
                            "on": name in chosen.channels_for_kind(kind),
                        }
                        for name in CHANNELS
                    ],
                }
                for kind in Kind
            ],
            "channels": [
                {"type": name, "name": words.channel_name(name), "own": own.get(name)}
                for name in list(ChannelType)
            ],
            "channel_names": [words.channel_name(name) for name in CHANNELS],
            "digests": [(each, words.digest_name(each)) for each in operations.DIGESTS_S],
            "digest_s": chosen.digest_s,
            "messages_sent": queries.list_deliveries(username=username),
            "mail_address": user.email,
            "mail_ready": bool(settings.EMAIL_HOST and user.email),
            "secret": secret,
            "error": error,
            "url": url,
            "of": of,
        },
        status=400 if error else 200,
    )


def _say(request: HttpRequest, refused: Refused) -> None:
    for each in refused.problems:
        messages.error(request, problems.in_words(each))
