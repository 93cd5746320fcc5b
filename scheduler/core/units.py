"""Amounts: GPU in integer milli-GPU, parsed and printed exactly. No binary float anywhere."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

WHOLE_GPU_MGPU = 1000
#: "No bound", for quotas and limits. Larger than any sum that can occur.
UNLIMITED_MGPU = 2**53 - 1
#: The most that one amount may be: a million GPUs.
MAX_MGPU = 10**9


class AmountRefused(ValueError):
    """An amount that cannot be taken. ``field`` names where, the message says what and why."""

    def __init__(self, *, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def parse_gpu(text: object, *, field: str) -> int:
    """Return ``text``, a decimal number of GPUs with at most three places, as milli-GPU.

    Accepts str, int, Decimal and the floats that JSON carries (through their shortest text).

    Raises:
        AmountRefused: not a number, NaN, infinite, negative, over three places, or too large.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float | Decimal):
        raise AmountRefused(field=field, problem="must be a number of GPUs, such as 0.25")
    try:
        value = Decimal(str(text).strip())
    except InvalidOperation:
        raise AmountRefused(field=field, problem=f"{text!r} is not a number of GPUs") from None
    if not value.is_finite():
        raise AmountRefused(field=field, problem="must be a finite number of GPUs")
    if value < 0:
        raise AmountRefused(field=field, problem="must not be negative")
    if value > MAX_MGPU // WHOLE_GPU_MGPU:
        raise AmountRefused(field=field, problem="is larger than a million GPUs")
    scaled = value * WHOLE_GPU_MGPU
    if scaled != scaled.to_integral_value():
        raise AmountRefused(field=field, problem="has more than three decimal places")
    return int(scaled)


def format_gpu(mgpu: int) -> str:
    """Return milli-GPU as text with two places, three where the third is not zero: 90 is "0.09"."""
    sign = "-" if mgpu < 0 else ""
    whole, milli = divmod(abs(mgpu), WHOLE_GPU_MGPU)
    places = f"{milli:03d}"
    return f"{sign}{whole}.{places[:2] if places.endswith('0') else places}"


def gpu_decimal(mgpu: int) -> Decimal:
    """Return milli-GPU as an exact decimal number of GPUs without needless zeros."""
    value = Decimal(mgpu) / WHOLE_GPU_MGPU
    return value.to_integral_value() if value == value.to_integral_value() else value.normalize()


def memory_request_mgpu(*, request_mib: int, device_mib: int) -> int:
    """Return what a memory request counts as for queues on a device of ``device_mib``.

    ``max(1, floor(1000 m / M))``: three requests for 8,192 share a card of 24,576.
    """
    return max(1, WHOLE_GPU_MGPU * request_mib // device_mib)


def fraction_mib(*, request_mgpu: int, device_mib: int) -> int:
    """Return the memory that a fraction takes of a device: ``floor(f M / 1000)`` MiB."""
    return request_mgpu * device_mib // WHOLE_GPU_MGPU
