"""Sign-in through the identity provider: to it, and back. Without one set, these pages are not there."""

from __future__ import annotations

import logging
from typing import Any

import jwt
import requests
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from mozilla_django_oidc.views import (
    OIDCAuthenticationCallbackView,
    OIDCAuthenticationRequestView,
)

from access import sign_in
from access.provider import ProviderAway, setting

log = logging.getLogger(__name__)

#: What can go wrong between here and there: it is away, refuses, or says what can't be believed.
FAILURES = (
    ProviderAway,
    requests.RequestException,
    jwt.InvalidTokenError,
    SuspiciousOperation,
    KeyError,
)


class ToProvider(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """Sends to the provider's page."""

    get_settings = staticmethod(setting)

    def __init__(self, **kwargs: Any) -> None:
        # The library asks for the addresses here, which would fail before a request is there.
        super(OIDCAuthenticationRequestView, self).__init__(**kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer with the way to the provider."""
        _require_provider()
        try:
            self.OIDC_OP_AUTH_ENDPOINT = setting("OIDC_OP_AUTHORIZATION_ENDPOINT")
            self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID
            answer = super().get(request)
        except FAILURES as error:
            return _failed(request, error)
        assert isinstance(answer, HttpResponse)
        return answer


class FromProvider(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Takes in whom the provider sends back."""

    get_settings = staticmethod(setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Answer with the page that was wanted, or the sign-in page with what went wrong."""
        _require_provider()
        try:
            answer = super().get(request)
        except FAILURES as error:
            return _failed(request, error)
        assert isinstance(answer, HttpResponse)
        return answer

    def login_success(self) -> HttpResponse:
        """Sign in, and put it on record."""
        answer = super().login_success()
        sign_in.record(
            user=self.user,
            address=self.request.META.get("REMOTE_ADDR", ""),
            now=timezone.now(),
            reason="identity provider",
        )
        assert isinstance(answer, HttpResponse)
        return answer

    def login_failure(self) -> HttpResponse:
        """Go back to the sign-in page."""
        return _failed(self.request, None)


def _require_provider() -> None:
    if not settings.OIDC_ISSUER:
        raise Http404


def _failed(request: HttpRequest, error: Exception | None) -> HttpResponse:
    log.warning("sign_in.provider.failed", extra={"error": str(error or "not let in")[:300]})
    messages.error(request, _("The identity provider could not be asked, or did not let you in."))
    return redirect("login")
