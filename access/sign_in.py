"""Sign-in with a password: throttled by name and address, never closed for good, on record."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from access import counting
from access.models import User
from access.scopes import authority_of
from scheduler.operations import audit
from scheduler.operations.authority import Action

#: Failures are counted this long.
WINDOW_S = 15 * 60
#: Of one name from one address: so many are free, then each doubles the wait.
FREE_FAILURES = 5
FIRST_WAIT_S = 15
LONGEST_WAIT_S = 15 * 60
#: Of one address, whatever the name: someone who tries one password on many names.
ADDRESS_FAILURES = 60
#: Of one name, whatever the address: someone who has many. Addresses from which it has signed in
#: lately are left out, so that nobody can keep a person out by failing in their name.
NAME_FAILURES = 100
MANY_WAIT_S = 60
KNOWN_S = 30 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at the door: the name that was typed, and from where."""

    name: str
    address: str

    def key(self, what: str) -> str:
        """Return a key in Redis. Names are hashed: what people type there may be a password."""
        parts = {"both": f"{self.name.lower()}|{self.address}", "known": "", "name": "", "from": ""}
        parts["known"] = parts["both"]
        parts["name"] = self.name.lower()
        parts["from"] = self.address
        digest = hashlib.sha256(parts[what].encode()).hexdigest()[:32]
        return f"sign-in:{what}:{digest}"


def wait_s(attempt: Attempt) -> int:
    """Return after how many seconds this can be tried again; 0: now."""
    waits = [counting.remaining_s(key=f"{attempt.key(what)}:wait") for what in ("both", "from")]
    if not counting.remaining_s(key=attempt.key("known")):
        waits.append(counting.remaining_s(key=f"{attempt.key('name')}:wait"))
    return max(waits)


def failed(attempt: Attempt, *, now: datetime) -> int:
    """Count a failure and return the wait that it brings, in seconds; 0: none yet."""
    both, _left = counting.count(key=attempt.key("both"), window_s=WINDOW_S)
    by_address, _left = counting.count(key=attempt.key("from"), window_s=WINDOW_S)
    by_name, _left = counting.count(key=attempt.key("name"), window_s=WINDOW_S)
    over = both - FREE_FAILURES
    wait = 0
    if over >= 0 and both:
        wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**over)
        counting.mark(key=f"{attempt.key('both')}:wait", seconds=wait)
    for what, count, most in (
        ("from", by_address, ADDRESS_FAILURES),
        ("name", by_name, NAME_FAILURES),
    ):
        if count >= most:
            counting.mark(key=f"{attempt.key(what)}:wait", seconds=MANY_WAIT_S)
            wait = max(wait, MANY_WAIT_S)
    if over == 0 and both:
        _record_throttled(attempt, now, f"{FREE_FAILURES} wrong passwords")
    if by_name == NAME_FAILURES:
        _record_throttled(attempt, now, f"{NAME_FAILURES} failures from several addresses")
    if by_address == ADDRESS_FAILURES:
        _record_address(attempt, now)
    return wait


def succeeded(attempt: Attempt, *, user: User, now: datetime) -> None:
    """Forget the failures of this name from this address, and put the sign-in on record."""
    let_in(attempt)
    counting.mark(key=attempt.key("known"), seconds=KNOWN_S)
    record(user=user, address=attempt.address, now=now)


def record(*, user: User, address: str, now: datetime, reason: str = "") -> None:
    """Put a sign-in on record; ``reason`` says by what, where it is not a password."""
    audit.record(
        authority=authority_of(user=user, door="page", address=address),
        now=now,
        action="sign_in",
        target=user,
        reason=reason,
    )


def let_in(attempt: Attempt) -> None:
    """Drop what keeps this name out: failures and waits."""
    keys = [attempt.key("both"), attempt.key("name")]
    counting.forget(keys=[*keys, *(f"{key}:wait" for key in keys)])


def _record_throttled(attempt: Attempt, now: datetime, reason: str) -> None:
    """Put on record that a name has to wait; once a row of failures, and only a name that exists."""
    user = User.objects.filter(username=attempt.name).first()
    if user is None:
        return
    audit.record(
        authority=authority_of(user=user, door="page", address=attempt.address),
        now=now,
        action="sign_in",
        target=user,
        result="refused",
        reason=reason,
    )


def _record_address(attempt: Attempt, now: datetime) -> None:
    """Put on record that an address has to wait, whatever names it gave: they may be passwords."""
    audit.record(
        authority=_Stranger(address=attempt.address),
        now=now,
        action="sign_in",
        target="",
        result="refused",
        reason=f"{ADDRESS_FAILURES} failures from one address",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stranger:
    """Who has not signed in: nobody that a name could be put to, and may nothing."""

    address: str
    name: str = ""
    door: str = "page"

    def may(
        self, action: Action, *, project_id: int | None = None, department_id: int | None = None
    ) -> bool:
        """Return False."""
        return False

    def sees_project(self, *, project_id: int, department_id: int) -> bool:
        """Return False."""
        return False

    def sees_department(self, *, department_id: int) -> bool:
        """Return False."""
        return False
