"""Files that are sent while they are made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from asgiref.sync import sync_to_async
from django.http.response import HttpResponse, StreamingHttpResponse
from django.utils.translation import gettext as _

from reports import csv_export


def streamed(
    parts: Iterable[bytes], name: str, *, content_type: str = "text/csv; charset=utf-8"
) -> StreamingHttpResponse:
    """Answer a file piece by piece."""
    response = StreamingHttpResponse(one_by_one(parts), content_type=content_type)
    response["Content-Disposition"] = csv_export.disposition(name=name)
    return response


def no_such(unknown: Iterable[str]) -> HttpResponse:
    """Answer in the place of a file whose filters, such as "state=asleep", mean nothing."""
    said = _("There is no {given}. Correct the address.").format(given=_(", ").join(unknown))
    return HttpResponse(said, status=400, content_type="text/plain; charset=utf-8")


async def one_by_one(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield parts as they are made; the server would gather a plain iterator first."""
    made = iter(parts)
    following = sync_to_async(lambda: next(made, None))
    while (part := await following()) is not None:
        yield part
