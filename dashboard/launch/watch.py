"""Notices a scheduler that has gone silent although Redis answers: a worker can stay deaf."""

from __future__ import annotations

import os
import time

from dashboard.launch import resp

SILENCE_S = float(os.environ.get("TIDEGATE_SILENCE_S") or 30)
LOOK_EVERY_S = min(5.0, SILENCE_S / 4)
LONGEST_PATIENCE_S = 600.0


class TickWatch:
    """Compares the last tick's time with the clock; each restart it asks for waits longer."""

    def __init__(self, *, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self._patience_s = SILENCE_S
        self._heard_at = time.monotonic()
        self._last_tick: int | None = None
        self._look_at = 0.0

    def find_silence(self) -> str:
        """Return why worker and beat are to be restarted; empty where they are not."""
        now = time.monotonic()
        if now < self._look_at:
            return ""
        self._look_at = now + LOOK_EVERY_S
        try:
            tick = resp.get_integer(self._url, self._key)
        except resp.RedisAway:
            # Nobody can tick without Redis; count from the moment when it is back.
            self._heard_at = now
            return ""
        if tick is not None and tick != self._last_tick:
            self._last_tick = tick
            self._heard_at = now
            self._patience_s = SILENCE_S
            return ""
        silent_s = now - self._heard_at
        if silent_s < self._patience_s:
            return ""
        self._heard_at = now
        self._patience_s = min(self._patience_s * 2, LONGEST_PATIENCE_S)
        return f"the scheduler has not ticked for {silent_s:.0f} s"
