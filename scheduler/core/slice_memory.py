"""What a slice of GPU memory leaves for the KV cache of a language model's server. Pure.

A process takes a fixed amount before it holds any weights: context, libraries, workspaces. It weighs the
same on a small slice as on a whole card, so that on a small slice it decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: Where nothing was measured for the model of the card. An assumption, and to be called one.
ASSUMED_FIXED_MIB = 600
#: The most that an engine is told to take of what it sees; the rest is for what it doesn't count.
MOST_PERMILLE = 950
#: Without the size of a token's cache, this much is little: a part of the weights, and an amount.
_LITTLE_PART, _LITTLE_MIB = 8, 256


class Verdict(StrEnum):
    """What is to be expected of a slice."""

    FITS = "fits"
    TIGHT = "tight"  # it starts, and long or many requests won't fit
    TOO_SMALL = "too_small"  # it can't start


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to run in a slice. Zero: not known."""

    slice_mib: int
    weights_mib: int
    fixed_mib: int = ASSUMED_FIXED_MIB
    max_tokens: int = 0
    kv_bytes_per_token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How a slice divides. ``cache_mib`` below zero: so much is lacking."""

    slice_mib: int
    fixed_mib: int
    weights_mib: int
    cache_mib: int
    #: Of the slice: what an engine may be told to take for weights and cache together.
    utilization_permille: int
    #: Tokens that the cache holds; None where the size of one is not known.
    tokens: int | None
    verdict: Verdict


def divide(wish: Wish) -> Division:
    """Return how a slice divides between the fixed amount, the weights and the cache."""
    utilization_permille = max_utilization_permille(
        slice_mib=wish.slice_mib, fixed_mib=wish.fixed_mib
    )
    cache_mib = wish.slice_mib * utilization_permille // 1000 - wish.weights_mib
    tokens = None
    if wish.kv_bytes_per_token:
        tokens = max(cache_mib, 0) * 2**20 // wish.kv_bytes_per_token
    return Division(
        slice_mib=wish.slice_mib,
        fixed_mib=wish.fixed_mib,
        weights_mib=wish.weights_mib,
        cache_mib=cache_mib,
        utilization_permille=utilization_permille,
        tokens=tokens,
        verdict=_verdict(wish, cache_mib, tokens),
    )


def max_utilization_permille(*, slice_mib: int, fixed_mib: int) -> int:
    """Return the honest share of the slice for weights and cache, in whole hundredths."""
    if slice_mib <= fixed_mib:
        return 0
    return min((slice_mib - fixed_mib) * 100 // slice_mib * 10, MOST_PERMILLE)


def _verdict(wish: Wish, cache_mib: int, tokens: int | None) -> Verdict:
    if cache_mib <= 0:
        return Verdict.TOO_SMALL
    if tokens is not None and wish.max_tokens:
        return Verdict.FITS if tokens >= wish.max_tokens else Verdict.TIGHT
    little_mib = max(_LITTLE_MIB, wish.weights_mib // _LITTLE_PART)
    return Verdict.TIGHT if cache_mib < little_mib else Verdict.FITS
