"""The day's callers: so many people at each service, each asking one thing after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import httpx

#: A chat of so many tokens takes about a second at the example server's pace.
TOKENS = 24
PAUSE_S = 0.2
#: An embedding is answered at once: who asks for them comes about once a second.
EMBED_PAUSE_S = 0.9
#: One who got no answer comes back after this long.
AWAY_S = 2.0
#: Longer than a cold start: a service at zero holds the request meanwhile.
TIMEOUT = httpx.Timeout(120.0, connect=5.0)
QUESTIONS = (
    "When does the tide turn?",
    "Write a line about a harbour at night.",
    "Which ships wait outside the gate?",
    "How high is the water at noon?",
)


@dataclass(slots=True)
class Counts:
    """What became of the requests."""

    requests: int = 0
    errors: int = 0
    #: How often in a row the product itself did not answer.
    away: int = 0


@dataclass(slots=True, kw_only=True)
class Crowd:
    """The callers of one service."""

    client: httpx.AsyncClient
    model: str
    key: str
    #: Ask for embeddings, which take no time, instead of a chat.
    embeds: bool
    counts: Counts
    _callers: list[asyncio.Task[None]] = field(default_factory=list)
    _size: int = 0

    @property
    def size(self) -> int:
        """Return how many callers it is to have."""
        return self._size

    def set_size(self, size: int) -> None:
        """Have so many callers; who is too many leaves after the answer that it waits for."""
        self._size = size
        for place in range(size):
            if place == len(self._callers):
                self._callers.append(asyncio.create_task(self._call(place)))
            elif self._callers[place].done():
                self._callers[place] = asyncio.create_task(self._call(place))

    async def leave(self) -> None:
        """Send everybody home at once; a request under way is given up."""
        self._size = 0
        for caller in self._callers:
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)

    async def _call(self, place: int) -> None:
        number = 0
        while place < self._size:
            number += 1
            pause_s = EMBED_PAUSE_S if self.embeds else PAUSE_S
            await asyncio.sleep(pause_s if await self._ask(place + number) else AWAY_S)

    async def _ask(self, number: int) -> bool:
        path, body = self._request(number)
        try:
            async with self.client.stream(
                "POST",
                path,
                json={"model": self.model, **body},
                headers={"Authorization": f"Bearer {self.key}"},
            ) as answer:
                async for _ in answer.aiter_raw():
                    pass
        except (httpx.ConnectError, httpx.ConnectTimeout):
            self.counts.away += 1  # nothing was asked
            return False
        except httpx.HTTPError:
            self.counts.requests += 1
            self.counts.errors += 1
            return False
        self.counts.away = 0
        self.counts.requests += 1
        self.counts.errors += answer.status_code != httpx.codes.OK
        return answer.status_code == httpx.codes.OK

    def _request(self, number: int) -> tuple[str, dict[str, object]]:
        question = QUESTIONS[number % len(QUESTIONS)]
        if self.embeds:
            return "/v1/embeddings", {"input": question}
        message = {"role": "user", "content": question}
        return "/v1/chat/completions", {"messages": [message], "max_tokens": TOKENS, "stream": True}
