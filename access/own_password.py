"""One's own password: changed by who knows the present one; all other sign-ins end."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from access import sessions, sign_in
from access.last_admin import PeopleRefused
from access.models import User
from access.people import password_problems
from access.scopes import UserAuthority
from access.tokens_refused import refuse_tokens
from scheduler.operations import audit
from scheduler.operations.refused import Problem


def change_own_password(
    *,
    present: str,
    wanted: str,
    repeated: str,
    session_key: str,
    authority: UserAuthority,
    now: datetime,
) -> User:
    """Set one's own password. ``session_key``: the sign-in that stays.

    Raises:
        NotPermitted: by a token.
        PeopleRefused: the present one is wrong (throttled as a sign-in is), or the new one can't be.
    """
    refuse_tokens(authority)
    user = User.objects.get(pk=authority.user_id)
    attempt = sign_in.Attempt(name=user.username, address=authority.address)
    _require_present(user, present, attempt, now)
    problems = password_problems(wanted, user)
    if wanted != repeated:
        problems.append(
            Problem(field="repeated", code="not_alike", message="The two are not alike.")
        )
    if problems:
        raise PeopleRefused(problems)
    with transaction.atomic():
        user.set_password(wanted)
        user.save(update_fields=["password"])
        sessions.end_sessions(user=user, except_key=session_key)
        audit.record(authority=authority, now=now, action="user.password", target=user)
    return user


def _require_present(user: User, present: str, attempt: sign_in.Attempt, now: datetime) -> None:
    wait = sign_in.wait_s(attempt)
    if not wait and user.check_password(present):
        return
    wait = wait or sign_in.failed(attempt, now=now)
    if wait:
        raise PeopleRefused(
            [
                Problem(
                    field="present",
                    code="wait_to_sign_in",
                    message=f"Too many wrong passwords. Try again in {wait} s.",
                    params={"wait": wait},
                )
            ]
        )
    raise PeopleRefused(
        [Problem(field="present", code="wrong_password", message="That is not your password.")]
    )
