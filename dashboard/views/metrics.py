"""``/metrics`` for Prometheus, and ``/readyz`` for whoever sends requests here."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from access.models import User
from access.scopes import visibility_of
from access.tokens import BadToken, bearer_of
from dashboard import readiness
from dashboard.metrics import Collector
from scheduler.queries.visibility import WHOLE_CLUSTER, Visibility


@require_GET
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer what the caller may see; who may see nothing is asked for a token."""
    visible = _visible(request)
    if visible is None:
        answer = HttpResponse(
            "Send an access token, or scrape from an address in TIDEGATE_METRICS_NETWORKS.\n",
            status=401,
            content_type="text/plain; charset=utf-8",
        )
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(visible=visible, now=timezone.now()))
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    found = HttpResponse(encode(registry), content_type=content_type)
    found["Cache-Control"] = "no-store"
    return found


@require_GET
def ready(request: HttpRequest) -> HttpResponse:
    """Answer whether requests may be sent here, by the names of what is well and what is not.

    What is wrong with it is told to those who may scrape by their address; others may be anybody.
    """
    findings = readiness.check()
    tells = _is_near(request)
    lines = [
        f"{'ok' if one.is_well else 'NOT'} {one.name}{f': {one.says}' if tells else ''}"
        for one in findings
    ]
    answer = HttpResponse(
        "\n".join(lines) + "\n",
        status=200 if all(one.is_well for one in findings) else 503,
        content_type="text/plain; charset=utf-8",
    )
    answer["Cache-Control"] = "no-store"
    return answer


def _visible(request: HttpRequest) -> Visibility | None:
    address = request.META.get("REMOTE_ADDR", "")
    authorization = request.headers.get("Authorization", "")
    if authorization:
        try:
            found = bearer_of(authorization=authorization, now=timezone.now(), address=address)
        except BadToken:
            return None
        return found.authority.visible
    if isinstance(request.user, User):
        return visibility_of(user=request.user)
    return WHOLE_CLUSTER if _is_near(request) else None


def _is_near(request: HttpRequest) -> bool:
    """Test whether it comes from an address that may scrape."""
    if "X-Forwarded-For" in request.headers:
        return False  # behind a proxy that passes everybody on, an address says nothing
    try:
        found = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    return any(found in ipaddress.ip_network(one) for one in settings.METRICS_NETWORKS)
