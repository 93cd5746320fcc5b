"""Takes one request through a replica: a seat, the request, the answer as it comes, the reckoning."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gateway.desk import Desk, Seat, Ticket, monotonic_us, now_us
from gateway.errors import GatewayError, ReplicaFailed, TookTooLong
from gateway.exchange import Exchange
from gateway.patience import Patience, Watch
from gateway.tokens import TokenReader, UsageEventFilter, ask_for_usage
from gateway.upstream import Broken, Connection, Refused, Upstream, head_of, send_body
from gateway.usage import LatencyBook, UsageBook
from scheduler.core.autoscale import SECOND_US
from scheduler.queries.routes import KeyFacts, Route

#: Meant for one connection only, or for the gateway, or none of a replica's business.
_NOT_TO_REPLICAS = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade host content-length expect authorization cookie x-api-key "
    b"accept-encoding".split()
)
_NOT_TO_CALLERS = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade set-cookie date server".split()
)
#: A replica's page must not act in the name of who looks at it: it shares the product's address.
_GUARDS = [
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
]
MOST_REFUSALS = 20
MOST_DECLINED = 5


class Declined(Refused):
    """A replica that leaves answered 503 with Retry-After: it did nothing and another one may."""


class Unasked(Refused):
    """A replica answered 400 to a request that the gateway had added to: it may not know that."""


class Cut(Exception):
    """An answer that has begun can't be ended well: the caller's connection is cut."""


@dataclass(slots=True)
class _Turn:
    """A request's place: where it goes, and whom to tell once it has gone."""

    seat: Seat
    ticket: Ticket
    target: bytes
    #: Whether it may still go to another replica if this one says that it is leaving.
    may_decline: bool
    #: Whether the gateway asks for the stream's usage in the place of the caller.
    asks_usage: bool


@dataclass(slots=True, kw_only=True)
class Reckoning:
    """What is known of a request for its usage; times are those of ``monotonic_us``."""

    began_us: int
    seated_us: int = 0
    first_us: int = 0
    status: int = 0
    cost_nano: int = 0
    failed: bool = False
    answered: bool = False
    reader: TokenReader = field(default_factory=TokenReader)


class Forwarder:
    """Carries requests to replicas and back."""

    def __init__(self, *, upstream: Upstream, book: UsageBook, latencies: LatencyBook) -> None:
        self._upstream = upstream
        self._book = book
        self._latencies = latencies
        self._watch = Watch()

    def close(self) -> None:
        """End what is looked after beside serving."""
        self._watch.close()

    async def forward(
        self, *, exchange: Exchange, desk: Desk, key: KeyFacts, model: str, target: bytes
    ) -> None:
        """Serve a request of ``key`` at ``target`` of the service, whatever comes of it.

        Raises:
            GatewayError: no answer was begun.
        """
        reckoning = Reckoning(began_us=monotonic_us())
        desk.demand.arrive(now_us=now_us())
        self._watch.listen_later(exchange)
        try:
            await self._serve(exchange, desk, target, reckoning)
            reckoning.answered = True
        except GatewayError:
            reckoning.failed = True
            raise
        finally:
            self._reckon(desk, key, model, reckoning)

    def _reckon(self, desk: Desk, key: KeyFacts, model: str, reckoning: Reckoning) -> None:
        at_us, ended_us = now_us(), monotonic_us()
        latency_us = ended_us - reckoning.began_us if reckoning.answered else None
        desk.demand.leave(now_us=at_us, latency_us=latency_us)
        if latency_us is not None and reckoning.first_us:
            self._latencies.add(
                workload_id=desk.route.workload_id,
                at_us=at_us,
                first_us=reckoning.first_us - reckoning.began_us,
                whole_us=latency_us,
            )
        self._book.add(
            key_id=key.id,
            project_id=desk.route.project_id,
            model=model,
            at_us=at_us,
            counts=_counts_of(reckoning, ended_us),
        )

    async def _serve(
        self, exchange: Exchange, desk: Desk, target: bytes, reckoning: Reckoning
    ) -> None:
        deadline = asyncio.get_running_loop().time() + desk.route.request_timeout_s
        refusals = 0
        asks_usage = exchange.hides_usage and desk.tells_usage
        while True:
            ticket = Ticket()
            seat = await desk.sit(ticket, deadline=deadline, again=refusals > 0)
            reckoning.seated_us = monotonic_us()
            turn = _Turn(seat, ticket, target, refusals < MOST_DECLINED, asks_usage)
            try:
                await self._at_replica(exchange, desk, turn, reckoning)
                if exchange.hides_usage and not asks_usage and reckoning.status < 400:
                    desk.tells_usage = False  # it took the same request without the question
                return
            except Unasked:
                asks_usage = False
                refusals += 1
            except Refused as refused:
                refusals += 1
                desk.suspect(seat.endpoint.replica_id)
                if refusals >= MOST_REFUSALS:
                    message = f"No replica of {desk.route.name} takes a connection."
                    raise ReplicaFailed(message) from refused
            finally:
                ticket.tell_sent()
                reckoning.cost_nano += desk.leave(seat)

    async def _at_replica(
        self, exchange: Exchange, desk: Desk, turn: _Turn, reckoning: Reckoning
    ) -> None:
        """Send the request and pass the answer on.

        Raises:
            Refused: nothing was sent; another replica may be tried.
        """
        host, port = turn.seat.endpoint.host, turn.seat.endpoint.port
        connection = await self._upstream.connect(host, port)
        body = exchange.whole_body()
        if turn.asks_usage and body is not None:
            body = ask_for_usage(body)
        head = _head_of(exchange, turn.target, f"{host}:{port}", body)
        connection.begin(exchange.method.encode(), head + (body or b""), owes_body=body is None)
        turn.ticket.tell_sent()
        sender = None
        if body is None:
            is_chunked = exchange.header(b"content-length") is None
            chunks = exchange.chunks()
            sending = send_body(connection=connection, chunks=chunks, is_chunked=is_chunked)
            sender = asyncio.create_task(sending)
        try:
            await self._answer(exchange, connection, turn, desk.route, reckoning)
        except BaseException:
            connection.close()  # what is computed for it is in vain
            raise
        finally:
            if sender is not None:
                sender.cancel()
            self._upstream.give_back(host, port, connection)

    async def _answer(
        self,
        exchange: Exchange,
        connection: Connection,
        turn: _Turn,
        route: Route,
        reckoning: Reckoning,
    ) -> None:
        passed_s = (monotonic_us() - reckoning.began_us) / SECOND_US
        limit_s = route.request_timeout_s
        try:
            with Patience(self._watch, first_s=limit_s - passed_s, then_s=limit_s) as patience:
                await connection.wait_for_head()
                if turn.may_decline and _declines(exchange, connection):
                    raise Declined
                if turn.asks_usage and connection.status == 400:
                    raise Unasked
                is_stream = _is_stream(connection)
                reckoning.reader = TokenReader(is_stream=is_stream)
                reckoning.status = connection.status
                reckoning.failed = connection.status >= 500
                reckoning.first_us = monotonic_us()
                headers = _answer_headers(connection, turn.seat, reckoning)
                await exchange.begin_answer(connection.status, headers)
                if turn.asks_usage and is_stream:
                    await _pass_on_without_usage(exchange, connection, reckoning.reader, patience)
                else:
                    await _pass_on(exchange, connection, reckoning.reader, patience)
        except (TimeoutError, Broken) as error:
            reckoning.failed = True
            failure = _failure_of(error, begun=exchange.answering)
            if not exchange.answering:
                raise failure from error
            if not is_stream:
                raise Cut from error
            connection.close()
            await exchange.end_answer(b"data: " + failure.body() + b"\n\n")


async def _pass_on(
    exchange: Exchange,
    connection: Connection,
    reader: TokenReader,
    patience: Patience,
) -> None:
    """Pass the answer on, part by part as it comes; the time limit is then between two parts."""
    while True:
        patience.touch()
        data = await connection.read()
        reader.feed(data)
        if connection.complete:
            await exchange.end_answer(data)
            return
        await exchange.send_part(data)


async def _pass_on_without_usage(
    exchange: Exchange,
    connection: Connection,
    reader: TokenReader,
    patience: Patience,
) -> None:
    """Pass a stream on but for the event that the caller did not ask for."""
    told = UsageEventFilter()
    while True:
        patience.touch()
        data = await connection.read()
        reader.feed(data)
        data = told.feed(data)
        if connection.complete:
            if told.usage is not None:
                reader.note(told.usage)
            await exchange.end_answer(data + told.rest())
            return
        if data:
            await exchange.send_part(data)


def _declines(exchange: Exchange, connection: Connection) -> bool:
    """Test whether the replica took nothing on and the request can be sent again as it was."""
    if connection.status != 503 or exchange.whole_body() is None:
        return False
    return any(name == b"retry-after" for name, _ in connection.headers)


def _failure_of(error: Exception, *, begun: bool) -> ReplicaFailed | TookTooLong:
    where = "in the middle of its answer" if begun else "before it answered"
    if isinstance(error, TimeoutError):
        return TookTooLong(f"The replica was silent for the request timeout {where}.")
    return ReplicaFailed(f"The replica broke off {where}.")


def _head_of(exchange: Exchange, target: bytes, host: str, body: bytes | None) -> bytes:
    headers = [(n, v) for n, v in exchange.headers if n not in _NOT_TO_REPLICAS]
    length = exchange.header(b"content-length")
    if body is not None:
        length = str(len(body)).encode()
        if body or exchange.method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
            headers.append((b"content-length", length))
    elif length is not None:
        headers.append((b"content-length", length))
    else:
        headers.append((b"transfer-encoding", b"chunked"))
    return head_of(method=exchange.method, target=target, host=host, headers=headers)


def _is_stream(connection: Connection) -> bool:
    return any(
        name == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in connection.headers
    )


def _answer_headers(
    connection: Connection, seat: Seat, reckoning: Reckoning
) -> list[tuple[bytes, bytes]]:
    queued_ms = (reckoning.seated_us - reckoning.began_us) // 1000
    return [
        *((n, v) for n, v in connection.headers if n not in _NOT_TO_CALLERS),
        *_GUARDS,
        (b"x-tidegate-replica", str(seat.endpoint.replica_id).encode()),
        (b"x-tidegate-queued-ms", str(queued_ms).encode()),
    ]


def _counts_of(reckoning: Reckoning, ended_us: int) -> tuple[int, ...]:
    """Return what one request counts for, in the order of ``COUNTS``."""
    tokens = reckoning.reader.tokens()
    seated_us = reckoning.seated_us or ended_us
    return (
        1,
        int(reckoning.failed),
        tokens.taken,
        tokens.made,
        (ended_us - seated_us) // 1000,
        (seated_us - reckoning.began_us) // 1000,
        reckoning.cost_nano // 1000,
    )
