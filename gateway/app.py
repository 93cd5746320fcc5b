"""The inference gateway as an ASGI application: ``uvicorn gateway.app:app``, or mounted in another.

Paths: /v1/models, /v1/chat/completions, /v1/completions, /v1/embeddings, any path of one service under
/services/PROJECT/NAME/, and /v1/services/PROJECT/NAME/metric, where a service's own number is posted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote, unquote

import django
from django.apps import apps

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
if not apps.ready:
    django.setup()

# Only now: these need the applications to be set up.
from django.conf import settings

from gateway import keys, posted
from gateway.desk import Desk
from gateway.errors import (
    GatewayError,
    NothingCameUp,
    TooLarge,
    UnknownModel,
    UnknownPath,
    WrongMethod,
)
from gateway.exchange import MAX_BODY_BYTES, Exchange
from gateway.forward import Cut
from gateway.runtime import Runtime
from scheduler.queries.routes import KeyFacts

log = logging.getLogger(__name__)

PREFIXES = ("/v1/", "/services/")
HEALTH_PATH = "/healthz"
BY_MODEL = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/embeddings"})
READY_TIMEOUT_S = 10.0

Application = Callable[[Any, Any, Any], Awaitable[None]]


class Gateway:
    """The application. Its runtime begins with the server, or with the first request."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self._starting = asyncio.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.serve_lifespan(receive, send)
        elif scope["type"] == "http":
            await self.serve(Exchange(scope, receive, send))
        else:
            await send({"type": "websocket.close", "code": 4404})

    # -- beginning and end -----------------------------------------------------------------------

    async def start(self) -> Runtime:
        """Return the runtime, begun if it is not yet."""
        if self.runtime is None:
            async with self._starting:
                if self.runtime is None:
                    runtime = Runtime(redis_url=settings.REDIS_URL)
                    await runtime.start()
                    self.runtime = runtime
        return self.runtime

    async def stop(self) -> None:
        """End the runtime."""
        runtime, self.runtime = self.runtime, None
        if runtime is not None:
            await runtime.stop()

    async def serve_lifespan(self, receive: Any, send: Any) -> None:
        """Begin and end with the server."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    # -- one request -----------------------------------------------------------------------------

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request, whatever comes of it."""
        try:
            await self._serve(exchange)
        except GatewayError as error:
            await exchange.refuse(error)
        except Cut:
            log.info("gateway.answer.cut", extra={"path": exchange.path})
        except asyncio.CancelledError:
            await _after_interruption(exchange)
        except Exception:
            log.exception("gateway.request.failed", extra={"path": exchange.path})
            await exchange.refuse(GatewayError("The gateway failed on this request."))
        finally:
            await exchange.close()

    async def _serve(self, exchange: Exchange) -> None:
        if exchange.path == HEALTH_PATH:
            await exchange.answer(200, b"ok\n", [(b"content-type", b"text/plain")])
            return
        runtime = await self.start()
        key = await runtime.keys.check(exchange.header(b"authorization"))
        if not runtime.is_ready:
            await _wait_for_routes(runtime)
        if exchange.path == "/v1/models" or exchange.path.startswith("/v1/models/"):
            await _answer_models(exchange, runtime, key)
            return
        _refuse_large(exchange)
        await exchange.open()
        if exchange.path in BY_MODEL:
            await self._serve_model(exchange, runtime, key)
        elif exchange.path.startswith("/services/"):
            await self._serve_service(exchange, runtime, key)
        elif (names := posted.names_of(exchange.path)) is not None:
            await posted.take(exchange=exchange, desk=_desk_of_names(runtime, key, *names))
        else:
            raise UnknownPath(f"There is no {exchange.path} here.")

    async def _serve_model(self, exchange: Exchange, runtime: Runtime, key: KeyFacts) -> None:
        if exchange.method != "POST":
            raise WrongMethod(f"Use POST for {exchange.path}.")
        model = await exchange.find_model()
        desk = _desk_of_model(runtime, key, model)
        await runtime.keys.admit(key)
        target = exchange.raw_path + (b"?" + exchange.query if exchange.query else b"")
        await runtime.forwarder.forward(
            exchange=exchange, desk=desk, key=key, model=model, target=target
        )

    async def _serve_service(self, exchange: Exchange, runtime: Runtime, key: KeyFacts) -> None:
        desk, path = _desk_of_path(runtime, key, exchange.raw_path)
        await runtime.keys.admit(key)
        target = path + (b"?" + exchange.query if exchange.query else b"")
        await runtime.forwarder.forward(
            exchange=exchange, desk=desk, key=key, model=desk.route.models[0], target=target
        )


def _refuse_large(exchange: Exchange) -> None:
    length = exchange.header(b"content-length")
    if length is not None and length.isdigit() and int(length) > MAX_BODY_BYTES:
        raise TooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes.")


async def _wait_for_routes(runtime: Runtime) -> None:
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            await runtime.ready()
    except TimeoutError as error:
        raise NothingCameUp("The services can't be read now.", retry_after_s=5) from error


async def _after_interruption(exchange: Exchange) -> None:
    """End quietly where the caller is gone, answer where its body was refused, else pass it on."""
    if not exchange.gone and exchange.problem is None:
        raise asyncio.CancelledError
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    if exchange.problem is not None:
        await exchange.refuse(exchange.problem)


async def _answer_models(exchange: Exchange, runtime: Runtime, key: KeyFacts) -> None:
    if exchange.method not in ("GET", "HEAD"):
        raise WrongMethod(f"Use GET for {exchange.path}.")
    offered: dict[str, dict[str, object]] = {}
    for desk in runtime.desks_for(key):
        for model in desk.route.models:
            if keys.may_name(facts=key, model=model) and model not in offered:
                offered[model] = {
                    "id": model,
                    "object": "model",
                    "created": desk.route.created_at_s,
                    "owned_by": desk.route.project_name,
                }
    asked = unquote(exchange.path.removeprefix("/v1/models").removeprefix("/"))
    if not asked:
        await exchange.answer_json({"object": "list", "data": list(offered.values())})
    elif asked in offered:
        await exchange.answer_json(offered[asked])
    else:
        raise _unknown_model(asked)


def _desk_of_model(runtime: Runtime, key: KeyFacts, model: str) -> Desk:
    """Return the service that serves a model for a key: its own project's before others'."""
    if keys.may_name(facts=key, model=model):
        found = [desk for desk in runtime.desks_for(key) if model in desk.route.models]
        if found:
            return min(
                found,
                key=lambda desk: (desk.route.project_id != key.project_id, desk.route.workload_id),
            )
    raise _unknown_model(model)


def _desk_of_path(runtime: Runtime, key: KeyFacts, raw_path: bytes) -> tuple[Desk, bytes]:
    """Return the service that a path under /services/ names, and the rest of the path."""
    parts = raw_path.decode("ascii", "replace").split("/", 4)
    project, name = unquote(parts[2]), unquote(parts[3]) if len(parts) > 3 else ""
    rest = parts[4] if len(parts) > 4 else ""
    path = b"/" + quote(rest, safe="/%:@!$&'()*+,;=~-._").encode()
    return _desk_of_names(runtime, key, project, name), path


def _desk_of_names(runtime: Runtime, key: KeyFacts, project: str, name: str) -> Desk:
    for desk in runtime.desks_for(key):
        route = desk.route
        named = any(keys.may_name(facts=key, model=model) for model in route.models)
        if (route.project_name, route.name) == (project, name) and named:
            return desk
    raise UnknownPath(f"There is no service {name} in {project} for this key.")


def _unknown_model(model: str) -> UnknownModel:
    return UnknownModel(
        f"The model {model[:200]!r} does not exist or this key may not use it.", param="model"
    )


gateway = Gateway()
app: Application = gateway


def mount(application: Application) -> Application:
    """Return an application that serves the gateway's paths and hands all others to another."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIXES):
            await gateway(scope, receive, send)
        else:
            await application(scope, receive, send)

    return serve
