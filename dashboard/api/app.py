"""The API as one object: its endpoints, its refusals, its OpenAPI document and reference page."""

from __future__ import annotations

from ninja import NinjaAPI
from ninja.openapi.docs import Swagger

from dashboard.api import (
    alerts,
    assets,
    audit,
    channels,
    cluster,
    decisions,
    emergency,
    errors,
    gateway_keys,
    idle,
    me,
    money,
    nodes,
    people,
    progress,
    proof,
    quota_files,
    quota_replays,
    quota_schedules,
    quotas,
    reports,
    saved_reports,
    serve_requests,
    services,
    tokens,
    units,
    workloads,
)
from dashboard.api.callers import Bearer, Browser

api = NinjaAPI(
    title="Tidegate",
    version="1",
    description=(
        "Everything that the pages do, with the same rights. Amounts of GPUs are whole thousandths "
        "(mGPU), instants are UTC, what one may not see answers as what does not exist."
    ),
    urls_namespace="api",
    auth=[Bearer(), Browser()],
    docs=Swagger(),
    docs_url="/reference",
)
errors.install(api)
api.add_router("/me", me.router)
api.add_router("/me", channels.router)
api.add_router("/me", tokens.own)
api.add_router("/cluster", cluster.router)
api.add_router("/workloads", workloads.router)
api.add_router("/workloads", progress.router)
api.add_router("/services", services.router)
api.add_router("/gateway-keys", gateway_keys.router)
api.add_router("/serve-requests", serve_requests.router)
api.add_router("/quotas", quotas.router)
api.add_router("/quotas", quota_files.router)
api.add_router("/quotas", quota_replays.router)
api.add_router("/quota-schedules", quota_schedules.router)
api.add_router("/assets", assets.router)
api.add_router("", people.router)
api.add_router("", alerts.router)
api.add_router("", units.router)
api.add_router("", idle.router)
api.add_router("/emergency", emergency.router)
api.add_router("/service-accounts", tokens.router)
api.add_router("/nodes", nodes.router)
api.add_router("/decisions", decisions.router)
api.add_router("/reports", reports.router)
api.add_router("/reports", saved_reports.router)
api.add_router("/reports", money.router)
api.add_router("/verifications", proof.router)
api.add_router("/audit", audit.router)
