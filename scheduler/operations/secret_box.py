"""Encrypts what must not be read from the database. The keys lie beside it, never in it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class SecretUnreadable(Exception):
    """No key of this installation opens it: the key that sealed it was lost or taken away."""


def seal(*, values: Mapping[str, str]) -> bytes:
    """Return named secrets, encrypted with the first key."""
    return _box().encrypt(json.dumps(dict(values)).encode())


def unseal(*, sealed: bytes) -> dict[str, str]:
    """Return what was sealed.

    Raises:
        SecretUnreadable: no key opens it.
    """
    try:
        opened: dict[str, str] = json.loads(_box().decrypt(sealed))
    except InvalidToken as error:
        raise SecretUnreadable from error
    return opened


def _box() -> MultiFernet:
    return MultiFernet([Fernet(_key_of(secret)) for secret in settings.CREDENTIALS_KEYS])


def _key_of(secret: str) -> bytes:
    """Return the key made from a long random text: 32 bytes, as the library wants them."""
    return base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest())
