"""Addresses of WebSockets."""

from __future__ import annotations

from django.urls import path

from dashboard.consumers import LiveConsumer
from dashboard.report_consumer import ReportConsumer

websocket_urlpatterns = [
    path("ws/live/", LiveConsumer.as_asgi()),
    path("ws/report/", ReportConsumer.as_asgi()),
]
