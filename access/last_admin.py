"""The cluster never loses its last system admin, by whatever change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db.models import Q

from access.models import AccessRule, Membership, User
from access.roles import Role
from scheduler.operations.refused import Problem, Refused


class PeopleRefused(Refused):
    """A change of a user, a group, an access rule, a service account or a token."""


@contextmanager
def keeping_an_admin(*, field: str, name: str) -> Iterator[None]:
    """Carry out what is inside unless it takes the last person away who may do everything.

    To be used inside a transaction, which the refusal ends. ``name`` is whom the change is about.

    Raises:
        PeopleRefused: nobody would be left.
    """
    had_one = _is_there_an_admin()
    yield
    if had_one and not _is_there_an_admin():
        raise PeopleRefused(
            [
                Problem(
                    field=field,
                    code="last_admin",
                    message=f"{name} is the last system admin. Make another one first.",
                    params={"name": name},
                )
            ]
        )


def _is_there_an_admin() -> bool:
    """Test whether a person, not a program, may do everything: itself or through a group."""
    rules = AccessRule.objects.filter(cluster=True, role=Role.SYSTEM_ADMIN)
    members = Membership.objects.filter(group__in=rules.values("group_id"))
    return (
        User.objects.filter(is_active=True, service=False)
        .filter(
            Q(is_superuser=True)
            | Q(pk__in=rules.values("user_id"))
            | Q(pk__in=members.values("user_id"))
        )
        .exists()
    )
