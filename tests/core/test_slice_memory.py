"""What a slice leaves for the cache: a table, and what always holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.slice_memory import Verdict, Wish, divide

CASES = [
    # slice, fixed, weights, max tokens, bytes a token   utilization, cache, tokens, verdict
    ((9214, 600, 3900, 0, 0), (930, 4669, None, Verdict.FITS)),  # a model of 2B on 0.20 of a card
    ((5528, 600, 2900, 0, 0), (890, 2019, None, Verdict.FITS)),
    ((4607, 600, 950, 0, 0), (860, 3012, None, Verdict.FITS)),
    ((4607, 600, 3800, 0, 0), (860, 162, None, Verdict.TIGHT)),
    ((4607, 600, 4000, 0, 0), (860, -38, None, Verdict.TOO_SMALL)),
    ((500, 600, 100, 0, 0), (0, -100, None, Verdict.TOO_SMALL)),
    ((46068, 600, 15000, 0, 0), (950, 28764, None, Verdict.FITS)),
    ((4607, 600, 950, 4096, 131072), (860, 3012, 24096, Verdict.FITS)),
    ((4607, 600, 950, 32768, 131072), (860, 3012, 24096, Verdict.TIGHT)),
]


@pytest.mark.parametrize(("wish", "told"), CASES)
def test_a_slice_divides(wish, told):
    slice_mib, fixed_mib, weights_mib, max_tokens, kv_bytes = wish
    found = divide(
        Wish(
            slice_mib=slice_mib,
            fixed_mib=fixed_mib,
            weights_mib=weights_mib,
            max_tokens=max_tokens,
            kv_bytes_per_token=kv_bytes,
        )
    )
    assert (found.utilization_permille, found.cache_mib, found.tokens, found.verdict) == told


@given(
    slice_mib=st.integers(1, 200_000),
    fixed_mib=st.integers(0, 5_000),
    weights_mib=st.integers(0, 200_000),
)
def test_the_parts_never_pass_the_slice(slice_mib, fixed_mib, weights_mib):
    found = divide(Wish(slice_mib=slice_mib, fixed_mib=fixed_mib, weights_mib=weights_mib))
    taken_mib = slice_mib * found.utilization_permille // 1000
    assert taken_mib + min(fixed_mib, slice_mib) <= slice_mib
    assert found.weights_mib + found.cache_mib == taken_mib
    assert (found.verdict is Verdict.TOO_SMALL) == (found.cache_mib <= 0)


@given(slice_mib=st.integers(1, 200_000), more_mib=st.integers(0, 50_000))
def test_a_larger_slice_never_leaves_less(slice_mib, more_mib):
    small = divide(Wish(slice_mib=slice_mib, weights_mib=1000))
    large = divide(Wish(slice_mib=slice_mib + more_mib, weights_mib=1000))
    assert large.utilization_permille >= small.utilization_permille
    assert large.cache_mib >= small.cache_mib
