"""Who calls: a bearer key to what it may use, and whether one of its limits is reached."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import redis
import redis.asyncio

from gateway.errors import BadKey, BudgetSpent, LimitReached, NothingCameUp
from gateway.store import Store, StoreAway
from scheduler.operations.gateway_keys import SECRET_PREFIX
from scheduler.queries import routes
from scheduler.queries.visibility import SYSTEM

log = logging.getLogger(__name__)

#: How long what was read of a key is believed: a revoked key ends so long after.
BELIEVED_S = 2.0
#: How long it is believed while the database is away.
BELIEVED_IN_NEED_S = 300.0
MOST_KNOWN = 10_000
RETRY_AFTER_BUDGET_S = 3600


@dataclass(slots=True)
class _Known:
    facts: routes.KeyFacts | None
    at: float


class KeyRing:
    """The keys that were shown lately. Only digests are kept."""

    def __init__(self, *, store: Store, client: redis.asyncio.Redis) -> None:
        self._store = store
        self._client = client
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def check(self, authorization: bytes | None) -> routes.KeyFacts:
        """Return the key of an Authorization header.

        Raises:
            BadKey: there is none, or it is unknown, revoked or expired.
            NothingCameUp: it can't be looked up now.
        """
        scheme, _, secret = (authorization or b"").partition(b" ")
        secret = secret.strip()
        if scheme.lower() != b"bearer" or not secret:
            raise BadKey("Give a gateway key as: Authorization: Bearer KEY")
        facts = None
        if secret.startswith(SECRET_PREFIX.encode()):  # nothing else is worth a look-up
            facts = await self._find(hashlib.sha256(secret).hexdigest())
        if facts is None or facts.revoked or _is_past(facts.expires_at):
            raise BadKey("This gateway key is not valid: it is unknown, revoked or expired.")
        return facts

    async def admit(self, facts: routes.KeyFacts) -> None:
        """Count a request against the key's limits.

        Raises:
            LimitReached, BudgetSpent: with the time after which it can be tried again.
        """
        if facts.budget_micro and facts.spent_micro >= facts.budget_micro:
            raise BudgetSpent(
                "The budget of this key is spent. Ask whoever made it for a larger one.",
                retry_after_s=RETRY_AFTER_BUDGET_S,
            )
        if facts.tokens_per_day and facts.tokens_today >= facts.tokens_per_day:
            raise LimitReached(
                f"This key may use {facts.tokens_per_day} tokens a day and has used "
                f"{facts.tokens_today}.",
                retry_after_s=_seconds_to_midnight(),
            )
        if facts.requests_per_minute:
            await self._count_minute(facts)

    async def _find(self, digest: str) -> routes.KeyFacts | None:
        known = self._known.get(digest)
        now = time.monotonic()
        if known is not None and now - known.at < BELIEVED_S:
            return known.facts
        try:
            facts = await self._store.read(
                lambda: routes.find_key(visible=SYSTEM, digest=digest, now=datetime.now(tz=UTC))
            )
        except StoreAway as error:
            if known is not None and known.facts and now - known.at < BELIEVED_IN_NEED_S:
                return known.facts
            log.warning("gateway.keys.away", exc_info=True)
            raise NothingCameUp("Keys can't be checked now.", retry_after_s=5) from error
        self._known[digest] = _Known(facts, time.monotonic())
        self._known.move_to_end(digest)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return facts

    async def _count_minute(self, facts: routes.KeyFacts) -> None:
        """Count in the minute that all gateway processes share. Without Redis nothing is refused."""
        now_s = int(time.time())
        key = f"tidegate:rate:{facts.id}:{now_s // 60}"
        try:
            pipe = self._client.pipeline(transaction=False)
            pipe.incr(key)
            pipe.expire(key, 120)
            count, _ = await pipe.execute()
        except (redis.RedisError, OSError):
            log.warning("gateway.rate.away", exc_info=True)
            return
        if count > facts.requests_per_minute:
            raise LimitReached(
                f"This key may make {facts.requests_per_minute} requests a minute.",
                retry_after_s=60 - now_s % 60,
            )


def may_use(*, facts: routes.KeyFacts, route: routes.Route) -> bool:
    """Test whether a key's scope covers a service."""
    if facts.project_id is not None:
        in_scope = facts.project_id == route.project_id
    else:
        in_scope = facts.department_id == route.department_id
    return in_scope or route.open_to_all


def may_name(*, facts: routes.KeyFacts, model: str) -> bool:
    """Test whether a key's own list, if it has one, holds a model."""
    return not facts.allowed_models or model in facts.allowed_models


def _is_past(at: datetime | None) -> bool:
    return at is not None and at <= datetime.now(tz=UTC)


def _seconds_to_midnight() -> int:
    now = datetime.now(tz=UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return int((midnight - now).total_seconds()) + 1
