"""HTTP and WebSockets of the product; ``uvicorn dashboard.asgi:application`` serves it."""

from __future__ import annotations

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")

django_application = get_asgi_application()
#: Loaded now, with all pages and the API: the first request would wait for it, and a client may give up.
ROUTES = get_resolver().url_patterns

# Only now: these import models, which need the applications to be set up.
from dashboard.health import answer_health  # noqa: E402
from dashboard.routing import websocket_urlpatterns  # noqa: E402
from dashboard.socket_door import behind_the_door  # noqa: E402
from dashboard.workspace_door import open_workspaces  # noqa: E402
from gateway.app import gateway, mount  # noqa: E402

#: Workspaces at their own host, all else as it is.
door = open_workspaces(
    ProtocolTypeRouter(
        {
            "http": answer_health(django_application),
            # The gateway begins with the server: what it reports tells "nobody asks" from "nobody knows".
            "lifespan": gateway,
            "websocket": behind_the_door(URLRouter(websocket_urlpatterns)),
        }
    )
)
#: Requests for the gateway pass nothing else on their way: they are most of all requests.
application = mount(door)
