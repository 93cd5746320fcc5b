"""Which requests change something, for all HTTP doors alike."""

from __future__ import annotations

from django.http import HttpRequest

READING = frozenset({"GET", "HEAD", "OPTIONS"})
#: A POST whose address ends so only tries something out.
TRYING = "/preview"


def changes_something(request: HttpRequest) -> bool:
    """Test whether a request is made to change something: neither reading nor a preview."""
    return request.method not in READING and not request.path.endswith(TRYING)
