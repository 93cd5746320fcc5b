"""Sign-in with a password: the one door for people's passwords."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from access import sign_in
from access.models import User
from dashboard import problems
from scheduler.operations.refused import Problem


class SignInForm(AuthenticationForm):
    """Asks whether one has to wait before a password is looked at at all."""

    error_messages = {
        "invalid_login": _("The user name or the password is not right."),
        "inactive": _("The user name or the password is not right."),
    }
    #: Seconds to wait; 0: none.
    wait_s = 0

    def clean(self) -> dict[str, Any]:
        """Check name and password, throttled."""
        attempt = self.attempt()
        self.wait_s = sign_in.wait_s(attempt)
        if self.wait_s:
            raise self._must_wait()
        try:
            return super().clean()
        except forms.ValidationError:
            self.wait_s = sign_in.failed(attempt, now=timezone.now())
            if self.wait_s:
                raise self._must_wait() from None
            raise

    def attempt(self) -> sign_in.Attempt:
        """Return who tries, from where."""
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        return sign_in.Attempt(name=self.cleaned_data.get("username", ""), address=address)

    def _must_wait(self) -> forms.ValidationError:
        problem = Problem(
            field="", code="wait_to_sign_in", message="", params={"wait": self.wait_s}
        )
        return forms.ValidationError(problems.in_words(problem))


class SignIn(LoginView):
    """The page itself. 429 with Retry-After where one has to wait."""

    template_name = "dashboard/login.html"
    redirect_authenticated_user = True
    authentication_form = SignInForm

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the page's values, with the identity provider's name where there is one."""
        has_provider = bool(settings.OIDC_ISSUER)
        return {
            **super().get_context_data(**kwargs),
            "has_provider": has_provider,
            "provider_name": settings.OIDC_NAME,
        }

    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in, and put it on record."""
        answer = super().form_valid(form)
        user = form.get_user()
        assert isinstance(user, User)
        sign_in.succeeded(form.attempt(), user=user, now=timezone.now())
        return answer

    def form_invalid(self, form: Any) -> HttpResponse:
        """Answer the form again; where one has to wait, say until when in the way of HTTP too."""
        answer = super().form_invalid(form)
        if form.wait_s:
            answer.status_code = 429
            answer["Retry-After"] = str(form.wait_s)
        return answer
