"""Gateway keys and what was used through them."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from ninja.params import functions as param
from ninja.responses import Status
from pydantic import Field

from dashboard.api import lists
from dashboard.api.callers import who
from dashboard.api.errors import READS, WRITES
from dashboard.api.submission import Strict
from scheduler.operations import gateway_keys as operations
from scheduler.operations.refused import NotFound
from scheduler.queries import gateway_keys as queries

router = Router(tags=["Gateway keys"])
MOST_BIG = 2**62


class KeyOut(Schema):
    """One key with its use of the last thirty days. The secret is shown once, when it is made."""

    id: int
    name: str
    prefix: str
    scope: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    allowed_models: list[str]
    requests_per_minute: int
    tokens_per_day: int
    budget_micro: int
    requests: int
    errors: int
    input_tokens: int
    output_tokens: int
    cost_micro: int


class MadeKeyOut(Schema):
    """A new key. ``secret`` is shown this once."""

    id: int
    name: str
    secret: str


class KeyTermsIn(Strict):
    """What a key may. 0: no bound; no models: all that its scope may ask."""

    name: str = Field(max_length=63)
    allowed_models: list[str] = Field([], max_length=100)
    requests_per_minute: int = Field(0, ge=0, le=2**31 - 1)
    tokens_per_day: int = Field(0, ge=0, le=MOST_BIG)
    budget_micro: int = Field(0, ge=0, le=MOST_BIG, description="Millionths of the currency.")
    expires_at: lists.Instant | None = None

    def as_terms(self) -> operations.KeyTerms:
        """Return them as the operations take them."""
        given = self.model_dump(include=set(KeyTermsIn.model_fields))
        return operations.KeyTerms(**{**given, "allowed_models": tuple(self.allowed_models)})


class KeyIn(KeyTermsIn):
    """A key of a project or of a department, one of the two. 0: no bound."""

    project_id: lists.Id | None = None
    department_id: lists.Id | None = None


class UsageOut(Schema):
    """What was used of one model through one key, the last thirty days."""

    key_name: str
    project_name: str
    model: str
    requests: int
    errors: int
    input_tokens: int
    output_tokens: int
    served_ms: int
    queued_ms: int
    cost_micro: int


@router.get("/usage", response={200: list[UsageOut], **READS}, summary="Use by key and model")
def usage(request: HttpRequest) -> list[UsageOut]:
    """The last thirty days, the dearest first."""
    rows = queries.list_usage(visible=who(request).visible, now=timezone.now())
    return [UsageOut.from_orm(row) for row in rows]


@router.get("", response={200: lists.Page[KeyOut], **READS}, summary="List keys")
def list_keys(
    request: HttpRequest,
    after: int | None = param.Query(None, ge=0, le=2**62),
    limit: int = param.Query(50, ge=1, le=lists.MOST),
) -> lists.Page[KeyOut]:
    """The newest first."""
    found = queries.list_keys(visible=who(request).visible, now=timezone.now())
    rows, following = lists.cut(found, after=after, limit=limit, key=lambda row: row.id)
    return lists.Page[KeyOut](
        items=[KeyOut.from_orm(row) for row in rows], next=following, total=len(found)
    )


@router.post("", response={201: MadeKeyOut, **WRITES}, summary="Make a key")
def create_key(request: HttpRequest, given: KeyIn) -> Status[MadeKeyOut]:
    """The secret is in this answer and never again."""
    made = operations.create_key(
        project_id=given.project_id,
        department_id=given.department_id,
        terms=given.as_terms(),
        authority=who(request).authority,
        now=timezone.now(),
    )
    return Status(201, MadeKeyOut(id=made.key.pk, name=made.key.name, secret=made.secret))


@router.put("/{key_id}", response={200: KeyOut, **WRITES}, summary="Change a key")
def change_key(request: HttpRequest, key_id: lists.Id, given: KeyTermsIn) -> KeyOut:
    """Its secret and its scope stay; gateways go by the rest within two seconds."""
    caller, now = who(request), timezone.now()
    operations.change_key(
        key_id=key_id, terms=given.as_terms(), authority=caller.authority, now=now
    )
    for row in queries.list_keys(visible=caller.visible, now=now):
        if row.id == key_id:
            return KeyOut.from_orm(row)
    raise NotFound("gateway key")


@router.delete("/{key_id}", response={204: None, **WRITES}, summary="Revoke a key")
def revoke_key(request: HttpRequest, key_id: lists.Id) -> Status[None]:
    """For good. Its usage stays."""
    operations.revoke_key(key_id=key_id, authority=who(request).authority, now=timezone.now())
    return Status(204, None)
