"""What a request answered, as one piece: pages, and files that are sent while they are made."""

from __future__ import annotations

from asgiref.sync import async_to_sync


def body_of(answer):
    """Return the whole body of an answer. Of a stream that never ends this never returns."""
    if not answer.streaming:
        return answer.content
    if not answer.is_async:
        return b"".join(answer.streaming_content)
    return async_to_sync(_collected)(answer.streaming_content)


async def _collected(parts):
    return b"".join([part async for part in parts])
