"""What only a person who is signed in may do, and no token."""

from __future__ import annotations

from access.scopes import UserAuthority
from scheduler.operations.authority import NotPermitted


def refuse_tokens(authority: UserAuthority) -> None:
    """Refuse what only a person who is signed in may do.

    Raises:
        NotPermitted: the caller came by a token.
    """
    if authority.token_id:
        raise NotPermitted(
            "A token can't make or change tokens and accounts. Sign in to do that.",
            code="not_by_token",
        )
