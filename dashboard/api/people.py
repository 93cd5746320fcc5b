"""People, groups and their roles: for those who may give some, inside their own scopes."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from access import groups, listing, people
from access.roles import Role
from access.scopes import UserAuthority
from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict
from scheduler.operations.authority import Action
from scheduler.operations.refused import NotFound

router = Router(tags=["People and roles"])


class RuleOut(Schema):
    """One role over one scope. ``by_group``: the group by which a person has it."""

    id: int
    role: Role
    scope_kind: str
    scope_name: str
    may_revoke: bool
    by_group: str


class PersonOut(Schema):
    """One person with the roles that the caller sees of it."""

    id: int
    username: str
    email: str
    active: bool
    superuser: bool
    last_login: datetime | None
    rules: list[RuleOut]

    @staticmethod
    def of(row: listing.PersonRow) -> PersonOut:
        """Return a person as it is answered."""
        names = set(PersonOut.model_fields) - {"rules"}
        return PersonOut(
            **{name: getattr(row, name) for name in names},
            rules=[RuleOut.from_orm(rule) for rule in row.rules],
        )


class MemberOut(Schema):
    """One member. ``by_provider``: it comes and goes with the identity provider's word."""

    user_id: int
    username: str
    active: bool
    by_provider: bool


class GroupOut(Schema):
    """One group with its members and the roles that the caller sees of it."""

    id: int
    name: str
    external_name: str
    members: list[MemberOut]
    rules: list[RuleOut]

    @staticmethod
    def of(row: groups.GroupRow) -> GroupOut:
        """Return a group as it is answered."""
        return GroupOut(
            id=row.id,
            name=row.name,
            external_name=row.external_name,
            members=[MemberOut.from_orm(each) for each in row.members],
            rules=[RuleOut.from_orm(rule) for rule in row.rules],
        )


class PersonIn(Strict):
    """A new user, who sees nothing until a role is given."""

    username: str = Field(max_length=150)
    password: str = Field(max_length=500)
    email: str = Field("", max_length=254)


class PersonChangeIn(Strict):
    """What changes of a user; what is left out stays."""

    email: str | None = Field(None, max_length=254)
    active: bool | None = None
    password: str | None = Field(None, max_length=500, description="Its sessions end with it.")


class GroupIn(Strict):
    """A group's names; ``external_name`` empty: no identity provider fills it."""

    name: str = Field(max_length=100)
    external_name: str = Field("", max_length=200)


class MemberIn(Strict):
    """Who becomes a member."""

    username: str = Field(max_length=150)


class GrantIn(Strict):
    """A role for a user or a group, one of the two, over exactly one scope; neither: the cluster."""

    username: str = Field("", max_length=150)
    group: str = Field("", max_length=100)
    role: Role
    department_id: lists.Id | None = None
    project_id: lists.Id | None = None


class MadeRuleOut(Schema):
    """The rule that was made."""

    id: int
    role: Role


@router.get("/people", response={200: lists.Page[PersonOut], **READS}, summary="List people")
def list_people(
    request: HttpRequest,
    q: str = param.Query("", max_length=100, description="Part of a name or an address."),
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[PersonOut]:
    """By name: those with a role in the caller's scopes; for a system admin all."""
    found = listing.list_people(authority=_governing(request), text=q.replace("\0", ""))
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[PersonOut](
        items=[PersonOut.of(row) for row in rows], next=following, total=len(found)
    )


@router.post("/people", response={201: PersonOut, **WRITES}, summary="Make a user")
def create_person(request: HttpRequest, given: PersonIn) -> Status[PersonOut]:
    """For system admins."""
    made = people.create_user(
        username=given.username,
        email=given.email,
        password=given.password,
        authority=_governing(request),
        now=timezone.now(),
    )
    return Status(201, PersonOut.of(_person(request, made.pk)))


@router.get("/people/{user_id}", response={200: PersonOut, **READS}, summary="One person")
def person(request: HttpRequest, user_id: lists.Id) -> PersonOut:
    """With its roles, by groups too."""
    return PersonOut.of(_person(request, user_id))


@router.patch("/people/{user_id}", response={200: PersonOut, **WRITES}, summary="Change a user")
def change_person(request: HttpRequest, user_id: lists.Id, given: PersonChangeIn) -> PersonOut:
    """Address, password, or the end of the account, which is out within seconds."""
    row, authority, now = _person(request, user_id), _governing(request), timezone.now()
    if given.password is not None:
        people.set_password(user_id=user_id, password=given.password, authority=authority, now=now)
    if given.email is not None or given.active is not None:
        people.change_user(
            user_id=user_id,
            email=row.email if given.email is None else given.email,
            is_active=row.active if given.active is None else given.active,
            authority=authority,
            now=now,
        )
    return PersonOut.of(_person(request, user_id))


@router.get("/groups", response={200: lists.Page[GroupOut], **READS}, summary="List groups")
def list_groups(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[GroupOut]:
    """By name: those with a role in the caller's scopes; for a system admin all."""
    found = groups.list_groups(authority=_governing(request))
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[GroupOut](
        items=[GroupOut.of(row) for row in rows], next=following, total=len(found)
    )


@router.post("/groups", response={201: GroupOut, **WRITES}, summary="Make a group")
def create_group(request: HttpRequest, given: GroupIn) -> Status[GroupOut]:
    """For system admins."""
    made = groups.save_group(
        name=given.name,
        external_name=given.external_name,
        authority=_governing(request),
        now=timezone.now(),
    )
    return Status(201, GroupOut.of(_group(request, made.pk)))


@router.put("/groups/{group_id}", response={200: GroupOut, **WRITES}, summary="Rename a group")
def change_group(request: HttpRequest, group_id: lists.Id, given: GroupIn) -> GroupOut:
    """Its members and roles stay."""
    _group(request, group_id)
    groups.save_group(
        group_id=group_id,
        name=given.name,
        external_name=given.external_name,
        authority=_governing(request),
        now=timezone.now(),
    )
    return GroupOut.of(_group(request, group_id))


@router.delete("/groups/{group_id}", response={204: None, **WRITES}, summary="Delete a group")
def delete_group(request: HttpRequest, group_id: lists.Id) -> Status[None]:
    """Its members lose what it gave them within seconds."""
    _group(request, group_id)
    groups.delete_group(group_id=group_id, authority=_governing(request), now=timezone.now())
    return Status(204, None)


@router.post(
    "/groups/{group_id}/members", response={200: GroupOut, **WRITES}, summary="Add a member"
)
def add_member(request: HttpRequest, group_id: lists.Id, given: MemberIn) -> GroupOut:
    """By name."""
    _group(request, group_id)
    groups.add_member(
        group_id=group_id,
        user_id=_user_id(given.username),
        authority=_governing(request),
        now=timezone.now(),
    )
    return GroupOut.of(_group(request, group_id))


@router.delete(
    "/groups/{group_id}/members/{user_id}",
    response={204: None, **WRITES},
    summary="Take a member out",
)
def remove_member(request: HttpRequest, group_id: lists.Id, user_id: lists.Id) -> Status[None]:
    """Who loses what the group gave within seconds."""
    _group(request, group_id)
    groups.remove_member(
        group_id=group_id, user_id=user_id, authority=_governing(request), now=timezone.now()
    )
    return Status(204, None)


@router.post("/access-rules", response={201: MadeRuleOut, **WRITES}, summary="Give a role")
def grant(request: HttpRequest, given: GrantIn) -> Status[MadeRuleOut]:
    """No role above one's own, and only inside one's own scope."""
    authority = _governing(request)
    made = people.grant(
        user_id=_user_id(given.username) if given.username else None,
        group_id=_group_id(given.group) if given.group else None,
        grant=people.Grant(
            role=given.role, department_id=given.department_id, project_id=given.project_id
        ),
        authority=authority,
        now=timezone.now(),
    )
    return Status(201, MadeRuleOut(id=made.pk, role=Role(made.role)))


@router.delete("/access-rules/{rule_id}", response={204: None, **WRITES}, summary="Take a role")
def revoke(request: HttpRequest, rule_id: lists.Id) -> Status[None]:
    """Pages that its holder has open lose it within seconds."""
    people.revoke(rule_id=rule_id, authority=_governing(request), now=timezone.now())
    return Status(204, None)


def _governing(request: HttpRequest) -> UserAuthority:
    """Return the caller's authority; for who gives no roles there are no people."""
    authority = who(request).authority
    if not authority.may_anywhere(Action.ACCESS):
        raise NotFound("people")
    return authority


def _person(request: HttpRequest, user_id: int) -> listing.PersonRow:
    rows = listing.list_people(authority=_governing(request))
    found = next((row for row in rows if row.id == user_id), None)
    if found is None:
        raise NotFound("user")
    return found


def _group(request: HttpRequest, group_id: int) -> groups.GroupRow:
    rows = groups.list_groups(authority=_governing(request))
    found = next((row for row in rows if row.id == group_id), None)
    if found is None:
        raise NotFound("group")
    return found


def _user_id(username: str) -> int:
    found = listing.find_user_id(username=username.replace("\0", ""))
    if found is None:
        raise NotFound("user")
    return found


def _group_id(name: str) -> int:
    found = groups.find_group_id(name=name.replace("\0", ""))
    if found is None:
        raise NotFound("group")
    return found
