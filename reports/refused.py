"""A report that is not made, and why."""

from __future__ import annotations


class ReportRefused(Exception):
    """What was asked for can't be answered; the message says what to change."""
