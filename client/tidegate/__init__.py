"""Client of Tidegate's REST API."""

from __future__ import annotations

from tidegate.client import ApiError, Client, NotSignedIn, Unreachable

__all__ = ["ApiError", "Client", "NotSignedIn", "Unreachable"]
__version__ = "0.1.0"
