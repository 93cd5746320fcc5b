"""Numbers in addresses."""

from __future__ import annotations


def optional_int(text: str | None) -> int | None:
    """Return the number in ``text``, or None where it is no number that an id could be."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 18:
        return None
    return int(text)
