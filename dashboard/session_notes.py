"""Notes in a signed-in session that it is in use, so that its owner finds it in the list."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from access.sessions import note_use


class SessionNotesMiddleware:
    """After the answer, so that a page does not wait for it; sessions that nobody read are left."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        if request.session.accessed and not request.session.is_empty():
            note_use(request=request, session=request.session)
        return answer
