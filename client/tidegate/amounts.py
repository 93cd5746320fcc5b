"""GPUs as people write them, and as the API takes them: whole thousandths."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation


def parse_gpu(text: str) -> int:
    """Return "0.25" as 250.

    Raises:
        ValueError: no number, negative, or with more than three places.
    """
    try:
        scaled = Decimal(text) * 1000
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no amount of GPUs: write 0.25 or 2.") from error
    if not scaled.is_finite() or scaled != scaled.to_integral_value() or scaled < 0:
        raise ValueError(f"{text!r} is no amount of GPUs: at most three places, not negative.")
    return int(scaled)


def show_gpu(mgpu: int | None) -> str:
    """Return 250 as "0.25", None as "-"."""
    if mgpu is None:
        return "-"
    text = f"{Decimal(mgpu) / 1000:.3f}"
    return text[:-1] if text.endswith("0") else text


def replica_request(mgpu: int) -> dict[str, int]:
    """Return what a replica asks for: a share of one device, or whole devices.

    Raises:
        ValueError: more than one GPU that are not whole ones.
    """
    if mgpu <= 1000:
        return {"devices": 1, "request_mgpu": mgpu}
    devices, rest = divmod(mgpu, 1000)
    if rest:
        raise ValueError("Above one GPU a replica takes whole GPUs: 1, 2, 3 and so on.")
    return {"devices": devices, "request_mgpu": 1000}
