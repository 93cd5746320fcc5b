"""ETags: what was read is named, so that an edit of something else is refused instead of lost."""

from __future__ import annotations

import hashlib

from django.utils.translation import gettext as _

from dashboard.api.errors import Unmet


def etag(*values: object) -> str:
    """Return the ETag of what can be edited."""
    return f'"{hashlib.sha256(repr(values).encode()).hexdigest()[:20]}"'


def require_match(current: str, *, given: str, needed: bool = False) -> None:
    """Refuse an edit whose If-Match names another state; ``needed``: also one that names none."""
    if not given:
        if needed:
            raise Unmet(
                "needs_if_match",
                _("Send the ETag that you read as If-Match, or “*” to change it whatever it is."),
                status=428,
            )
        return
    names = {name.strip().removeprefix("W/") for name in given.split(",")}
    if "*" not in names and current not in names:
        raise Unmet(
            "changed_meanwhile",
            _("It has been changed since you read it. Read it again."),
            status=412,
        )
