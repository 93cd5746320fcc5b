"""Which replica a request goes to: the one with the fewest in flight, never above the hard limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def choose(
    *, replica_ids: Sequence[int], in_flight: Mapping[int, int], limit: int, turn: int
) -> int | None:
    """Return the replica with the fewest requests in flight, or None where all are full or none is.

    Of equals the one after ``turn`` in circular order is taken, so that none is always first.
    """
    open_ids = [
        replica_id
        for replica_id in replica_ids
        if not limit or in_flight.get(replica_id, 0) < limit
    ]
    if not open_ids:
        return None
    fewest = min(in_flight.get(replica_id, 0) for replica_id in open_ids)
    equals = [each for each in open_ids if in_flight.get(each, 0) == fewest]
    later = [replica_id for replica_id in equals if replica_id > turn]
    return min(later) if later else min(equals)
