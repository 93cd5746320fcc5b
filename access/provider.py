"""Sign-in through an OpenID Connect provider: who it says someone is, and in which groups.

The protocol is mozilla-django-oidc's. Added here: the provider's addresses are discovered; issuer and
audience are checked; people are known by issuer and subject, never by a name or an address that they
can choose; groups follow what the provider says.
"""

from __future__ import annotations

import functools
from typing import Any
from urllib.parse import urlsplit

import jwt
import requests
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from access.groups import follow_provider
from access.models import ExternalIdentity, User
from scheduler.operations import audit
from scheduler.operations.authority import SystemAuthority

PROVIDER = SystemAuthority(name="identity provider", door="oidc")
#: What the library asks its settings for, by the name in the provider's own document.
DISCOVERED = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}
#: By the first two letters of how tokens are signed, of which kind the key is.
KEY_TYPES = {"RS": "RSA", "ES": "EC"}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class ProviderAway(Exception):
    """The provider can't be asked, or its document is not one of this issuer."""


def setting(name: str, *default: Any) -> Any:
    """Return a setting of the library, or what the provider's document says of it.

    Raises:
        ProviderAway.
    """
    if name in DISCOVERED:
        return _document(settings.OIDC_ISSUER)[DISCOVERED[name]]
    return OIDCAuthenticationBackend.get_settings(name, *default)


class ProviderBackend(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Turns what the provider says into a user of ours."""

    get_settings = staticmethod(setting)

    def __init__(self) -> None:
        # Not the library's: it asks for the provider's addresses here, and this is made for each
        # sign-in with a password too, which must go on while the provider is away.
        self.OIDC_RP_CLIENT_ID = settings.OIDC_RP_CLIENT_ID
        self.OIDC_RP_CLIENT_SECRET = settings.OIDC_RP_CLIENT_SECRET
        self.OIDC_RP_SIGN_ALGO = settings.OIDC_RP_SIGN_ALGO
        self.OIDC_RP_IDP_SIGN_KEY = None
        self.UserModel = User

    def __getattr__(self, name: str) -> Any:
        """Return an address of the provider, when it is first needed."""
        if name in DISCOVERED:
            return setting(name)
        raise AttributeError(name)

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:
        """Return who comes back from the provider; nobody who came with something else."""
        if "nonce" not in credentials:
            return None
        found = super().authenticate(request, **credentials)
        assert found is None or isinstance(found, User)
        return found

    def retrieve_matching_jwk(self, token: str) -> jwt.PyJWK:
        """Return the key that signed a token: the one that it names, or, where it names none, the only one.

        Not the library's, which fails on what names none. OpenID Connect Core 1.0, 10.1: a token must
        name its key only where the provider has several.
        """
        answer = requests.get(self.OIDC_OP_JWKS_ENDPOINT, timeout=settings.OIDC_TIMEOUT)
        answer.raise_for_status()
        wanted = settings.OIDC_RP_SIGN_ALGO
        fitting = [
            key
            for key in answer.json()["keys"]
            if key.get("kty") == KEY_TYPES.get(wanted[:2])
            and key.get("use", "sig") == "sig"
            and key.get("alg", wanted) == wanted
        ]
        name = jwt.get_unverified_header(token).get("kid")
        if name is not None:
            fitting = [key for key in fitting if key.get("kid") == name]
        if len(fitting) != 1:
            raise SuspiciousOperation("none of the provider's keys is the token's")
        return jwt.PyJWK(fitting[0])

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """Check signature and nonce as the library does, then who said it and to whom."""
        payload: dict[str, Any] = super().verify_token(token, **kwargs)
        audience = payload.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if payload.get("iss") != settings.OIDC_ISSUER:
            raise SuspiciousOperation("the token is of another issuer")
        if settings.OIDC_RP_CLIENT_ID not in named:
            raise SuspiciousOperation("the token is for another client")
        return payload

    def get_userinfo(
        self, access_token: str, id_token: str, payload: dict[str, Any]
    ) -> dict[str, Any]:
        """Return what both the token and the provider's page of the user say."""
        told = super().get_userinfo(access_token, id_token, payload)
        if told.get("sub") != payload.get("sub"):
            raise SuspiciousOperation("the user's page is someone else's")
        return {**payload, **told}

    def verify_claims(self, claims: dict[str, Any]) -> bool:
        """Test whether someone is named at all."""
        return bool(claims.get("sub"))

    def describe_user_by_claims(self, claims: dict[str, Any]) -> str:
        """Return how the library's log names someone."""
        return f"subject {claims.get('sub')}"

    def filter_users_by_claims(self, claims: dict[str, Any]) -> list[User]:
        """Return who this is: by issuer and subject; once by a verified address, where that is set."""
        known = User.objects.filter(
            external_identities__issuer=settings.OIDC_ISSUER,
            external_identities__subject=claims["sub"],
        )
        return list(known) or self._by_address(claims)

    def create_user(self, claims: dict[str, Any]) -> User:
        """Make a user, who sees nothing until a role is given to it or to a group of it."""
        with transaction.atomic():
            user = User(username=_free_name(claims), email=_address(claims))
            user.set_unusable_password()
            user.save()
            audit.record(
                authority=PROVIDER,
                now=timezone.now(),
                action="user.create",
                target=user,
                after={"username": user.username, "email": user.email},
            )
            return self.update_user(user, claims)

    def update_user(self, user: User, claims: dict[str, Any]) -> User:
        """Take over address and groups as the provider has them now."""
        with transaction.atomic():
            ExternalIdentity.objects.get_or_create(
                issuer=settings.OIDC_ISSUER, subject=claims["sub"], defaults={"user": user}
            )
            address = _address(claims)
            if address and address != user.email:
                user.email = address
                user.save(update_fields=["email"])
            follow_provider(
                user=user,
                external_names=_groups(claims),
                authority=PROVIDER,
                now=timezone.now(),
            )
        return user

    def get_user(self, user_id: int) -> User | None:
        """Return a user of a session; not one whose account has ended."""
        found = ModelBackend().get_user(user_id)
        assert found is None or isinstance(found, User)
        return found

    def _by_address(self, claims: dict[str, Any]) -> list[User]:
        if not settings.OIDC_LINK_EMAIL or claims.get("email_verified") is not True:
            return []
        same = User.objects.filter(email__iexact=_address(claims) or "-", service=False)
        return list(same.filter(external_identities=None))


@functools.lru_cache(maxsize=4)
def _document(issuer: str) -> dict[str, Any]:
    parts = urlsplit(issuer)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise ProviderAway(f"{issuer} is not https")
    try:
        answer = requests.get(
            f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=settings.OIDC_TIMEOUT
        )
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise ProviderAway(str(error)) from error
    missing = [name for name in DISCOVERED.values() if name not in document]
    if document.get("issuer") != issuer or missing:
        raise ProviderAway(f"the document is of {document.get('issuer')} and lacks {missing}")
    return document


def _address(claims: dict[str, Any]) -> str:
    return str(claims.get("email") or "")[:254]


def _groups(claims: dict[str, Any]) -> list[str]:
    told = claims.get(settings.OIDC_GROUPS_CLAIM) or []
    return [told] if isinstance(told, str) else [str(name) for name in told]


def _free_name(claims: dict[str, Any]) -> str:
    """Return a user name that nobody has: what the provider prefers, with a number where it is taken."""
    wanted = claims.get("preferred_username") or _address(claims) or claims["sub"]
    kept = "".join(each for each in str(wanted) if each.isalnum() or each in "@.+-_")[:140]
    wanted = kept or "user"
    name, number = wanted, 1
    while User.objects.filter(username=name).exists():
        number += 1
        name = f"{wanted}-{number}"
    return name
