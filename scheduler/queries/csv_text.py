"""Text cells of CSV files that no spreadsheet takes for a formula."""

from __future__ import annotations

#: A spreadsheet takes a text that begins with one of these for a formula (or drops the ').
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")


def guard(text: str) -> str:
    """Return a text cell that no spreadsheet evaluates; ``unguard`` gives the text back."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def unguard(cell: str) -> str:
    """Return the text of a cell that ``guard`` made, or that was typed without."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA_STARTS) else cell
