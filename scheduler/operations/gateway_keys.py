"""Keys to the gateway: made and revoked by people, and the use that the gateway records."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduler import models
from scheduler.operations import audit
from scheduler.operations.authority import Action, Authority, NotPermitted
from scheduler.operations.refused import NotFound, Problem, SubmitRefused

SECRET_PREFIX = "tg-"
SHOWN_CHARACTERS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTerms:
    """What a key may do. Zero and empty: no bound."""

    name: str
    allowed_models: tuple[str, ...] = ()
    requests_per_minute: int = 0
    tokens_per_day: int = 0
    budget_micro: int = 0
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeKey:
    """A new key. The secret is nowhere else and never shown again."""

    key: models.GatewayKey
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one key used of one model in one hour, to be added to what is recorded."""

    key_id: int
    project_id: int
    model: str
    hour_at: datetime
    requests: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    served_ms: int = 0
    queued_ms: int = 0
    cost_micro: int = 0


COUNTS = models.GatewayUsage.COUNTS


@transaction.atomic
def create_key(
    *,
    project_id: int | None = None,
    department_id: int | None = None,
    terms: KeyTerms,
    authority: Authority,
    now: datetime,
) -> MadeKey:
    """Make a key for one project's services, or for those of a department's projects.

    Raises:
        NotFound: no such project or department for the caller.
        NotPermitted: the caller may not serve there.
        SubmitRefused: terms that can't be.
    """
    scope = _find_scope(project_id, department_id, authority)
    problems = _problems(terms, now)
    if problems:
        raise SubmitRefused(problems)
    secret = SECRET_PREFIX + secrets.token_urlsafe(32)
    key = models.GatewayKey.objects.create(
        name=terms.name,
        prefix=secret[:SHOWN_CHARACTERS],
        digest=hashlib.sha256(secret.encode()).hexdigest(),
        project=scope if isinstance(scope, models.Project) else None,
        department=scope if isinstance(scope, models.Department) else None,
        created_by=authority.name,
        created_at=now,
        expires_at=terms.expires_at,
        allowed_models=list(terms.allowed_models),
        requests_per_minute=terms.requests_per_minute,
        tokens_per_day=terms.tokens_per_day,
        budget_micro=terms.budget_micro,
    )
    audit.record(
        authority=authority,
        now=now,
        action="gateway_key.create",
        target=scope,
        after={"key": key.pk, "name": terms.name, "prefix": key.prefix},
    )
    return MadeKey(key=key, secret=secret)


@transaction.atomic
def revoke_key(*, key_id: int, authority: Authority, now: datetime) -> models.GatewayKey:
    """End a key for good; the gateway believes it for two seconds more. Its usage stays.

    Raises:
        NotFound, NotPermitted.
    """
    key = models.GatewayKey.objects.select_for_update(of=("self",)).filter(pk=key_id).first()
    if key is None:
        raise NotFound("gateway key")
    scope = _find_scope(key.project_id, key.department_id, authority)
    if key.revoked_at is None:
        key.revoked_at = now
        key.save(update_fields=["revoked_at"])
        audit.record(
            authority=authority,
            now=now,
            action="gateway_key.revoke",
            target=scope,
            after={"key": key.pk, "name": key.name, "prefix": key.prefix},
        )
    return key


@transaction.atomic
def change_key(
    *, key_id: int, terms: KeyTerms, authority: Authority, now: datetime
) -> models.GatewayKey:
    """Change what a key may; gateways go by it within two seconds. Its secret and its scope stay.

    Raises:
        NotFound, NotPermitted.
        SubmitRefused: terms that can't be, or the key is revoked.
    """
    key = models.GatewayKey.objects.select_for_update(of=("self",)).filter(pk=key_id).first()
    if key is None:
        raise NotFound("gateway key")
    scope = _find_scope(key.project_id, key.department_id, authority)
    problems = _problems(terms, now)
    if key.revoked_at is not None:
        problems.append(
            Problem(field="name", code="key_revoked", message="The key is revoked. Make a new one.")
        )
    if problems:
        raise SubmitRefused(problems)
    before = _told(key)
    key.name, key.allowed_models = terms.name, list(terms.allowed_models)
    key.requests_per_minute, key.tokens_per_day = terms.requests_per_minute, terms.tokens_per_day
    key.budget_micro, key.expires_at = terms.budget_micro, terms.expires_at
    key.save()
    audit.record(
        authority=authority,
        now=now,
        action="gateway_key.change",
        target=scope,
        before=before,
        after=_told(key),
    )
    return key


def _told(key: models.GatewayKey) -> dict[str, object]:
    return {
        "key": key.pk,
        "name": key.name,
        "allowed_models": key.allowed_models,
        "requests_per_minute": key.requests_per_minute,
        "tokens_per_day": key.tokens_per_day,
        "budget_micro": key.budget_micro,
        "expires_at": key.expires_at.isoformat() if key.expires_at else "",
    }


@transaction.atomic
def record_use(*, uses: Sequence[Use]) -> None:
    """Add what gateways counted to what is recorded. Called by the gateway, in batches."""
    known_keys = set(
        models.GatewayKey.objects.filter(pk__in={use.key_id for use in uses}).values_list(
            "pk", flat=True
        )
    )
    for use in uses:
        if use.key_id not in known_keys:
            continue
        row, _ = models.GatewayUsage.objects.get_or_create(
            key_id=use.key_id, project_id=use.project_id, model=use.model, hour_at=use.hour_at
        )
        added = {name: F(name) + getattr(use, name) for name in COUNTS if getattr(use, name)}
        models.GatewayUsage.objects.filter(pk=row.pk).update(**added)


def _find_scope(
    project_id: int | None, department_id: int | None, authority: Authority
) -> models.Project | models.Department:
    """Return the one of both that is given, if it is there for the caller who may serve there."""
    if (project_id is None) == (department_id is None):
        raise SubmitRefused(
            [
                Problem(
                    field="scope",
                    code="one_scope",
                    message="Choose a project or a department for the key, one of the two.",
                )
            ]
        )
    if project_id is not None:
        project = models.Project.objects.filter(pk=project_id).first()
        if project is None or not authority.sees_project(
            project_id=project.pk, department_id=project.department_id
        ):
            raise NotFound("project")
        _require(authority, project)
        return project
    department = models.Department.objects.filter(pk=department_id or 0).first()
    if department is None or not authority.sees_department(department_id=department.pk):
        raise NotFound("department")
    _require(authority, department)
    return department


def _require(authority: Authority, scope: models.Project | models.Department) -> None:
    project_id = scope.pk if isinstance(scope, models.Project) else None
    department_id = scope.department_id if isinstance(scope, models.Project) else scope.pk
    if not authority.may(Action.SERVE, project_id=project_id, department_id=department_id):
        raise NotPermitted(
            f"Your role may not make or revoke gateway keys in {scope.name}. Ask an admin of it.",
            code="keys_are_for_admins",
            params={"name": scope.name},
            target=scope,
        )


def _problems(terms: KeyTerms, now: datetime) -> list[Problem]:
    problems: list[Problem] = []
    if not 1 <= len(terms.name.strip()) <= 63:
        problems.append(
            Problem(
                field="name", code="bad_unit_name", message="Give a name of 1 to 63 characters."
            )
        )
    for name in ("requests_per_minute", "tokens_per_day", "budget_micro"):
        if getattr(terms, name) < 0:
            problems.append(Problem(field=name, code="negative", message="Must not be negative."))
    if terms.expires_at is not None and terms.expires_at <= now:
        problems.append(
            Problem(field="expires_at", code="past", message="Choose an end in the future.")
        )
    return problems
