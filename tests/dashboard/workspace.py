"""A tiny workspace for tests: pages and a socket on one port, which says what reached it."""

from __future__ import annotations

import json
import os
import sys


async def app(scope, receive, send):
    """Answer what came in; echo on a socket."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": f"echo {message['text']}"})
        return
    body = json.dumps({"path": scope["path"], "headers": headers}).encode()
    start = [(b"content-type", b"application/json"), (b"set-cookie", b"own=1; Path=/")]
    await send({"type": "http.response.start", "status": 200, "headers": start})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    import uvicorn

    port = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ["PORT"])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
