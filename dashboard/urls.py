"""The site's addresses."""

from __future__ import annotations

from django.urls import include, path
from django.views.i18n import JavaScriptCatalog, set_language

from dashboard.admin.site import site
from dashboard.api.app import api
from dashboard.views import (
    assets,
    chosen,
    decisions,
    idle,
    inference,
    live,
    nodes,
    overview,
    quotas,
    reports,
    saved_reports,
    search,
    serve_requests,
    submit,
    workloads,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("overview/day", overview.overview_day, name="overview_day"),
    path("demonstration", overview.choose_demonstration, name="choose_demonstration"),
    path("workloads", workloads.workloads, name="workloads"),
    path("workloads/chosen", chosen.chosen, name="workloads_chosen"),
    path("workloads/new", submit.submit, name="workload_new"),
    path("workloads/new/estimate", submit.estimate, name="workload_estimate"),
    path("workloads/<int:workload_id>", workloads.workload, name="workload"),
    path("workloads/<int:workload_id>/ways", workloads.ways, name="workload_ways"),
    path("workloads/<int:workload_id>/stop", workloads.stop, name="workload_stop"),
    path("workloads/<int:workload_id>/start", workloads.start, name="workload_start"),
    path(
        "workloads/<int:workload_id>/priority",
        workloads.change_priority,
        name="workload_priority",
    ),
    path("workloads/<int:workload_id>/delete", workloads.delete, name="workload_delete"),
    path("assets", assets.assets, name="assets"),
    path("assets/new", assets.new, name="asset_new"),
    path("assets/<int:asset_id>", assets.asset, name="asset"),
    path("assets/<int:asset_id>/delete", assets.delete, name="asset_delete"),
    path("inference", inference.inference, name="inference"),
    path("inference/<int:workload_id>", inference.service, name="service"),
    path("inference/keys", inference.keys, name="gateway_keys"),
    path("inference/keys/<int:key_id>/revoke", inference.revoke_key, name="gateway_key_revoke"),
    path("quotas", quotas.quotas, name="quotas"),
    path("idle", idle.idle, name="idle"),
    path("idle/rules", idle.set_rule, name="idle_rule"),
    path("idle/<int:workload_id>/keep", idle.keep, name="idle_keep"),
    path("requests", serve_requests.requests, name="serve_requests"),
    path("requests/new", serve_requests.ask, name="serve_request_new"),
    path("requests/<int:request_id>/approve", serve_requests.approve, name="serve_request_approve"),
    path("requests/<int:request_id>/decline", serve_requests.decline, name="serve_request_decline"),
    path(
        "requests/<int:request_id>/withdraw", serve_requests.withdraw, name="serve_request_withdraw"
    ),
    path("notices", serve_requests.notices, name="notices"),
    path("", include("dashboard.people_urls")),
    path("manage/", include("dashboard.manage_urls")),
    path("nodes", nodes.nodes, name="nodes"),
    path("nodes/<str:node_name>/<int:index>", nodes.device, name="device"),
    path("decisions", decisions.decisions, name="decisions"),
    path("decisions/<int:decision_id>", decisions.decision, name="decision"),
    path("reports", reports.consumption, name="reports"),
    path("reports/saved", saved_reports.saved_list, name="saved_reports"),
    path("reports/saved/new", saved_reports.save, name="report_save"),
    path("reports/saved/drop", saved_reports.drop, name="saved_drop"),
    path("reports/saved/<int:report_id>", saved_reports.saved_report, name="saved_report"),
    path("reports/saved/<int:report_id>.csv", saved_reports.saved_csv, name="saved_csv"),
    path("reports/savings", reports.savings, name="report_savings"),
    path("reports/intervals", reports.interval_list, name="report_intervals"),
    path("reports/consumption.<str:ending>", reports.download, name="report_download"),
    path("search", search.search, name="search"),
    path("api/v1/live", live.live, name="live"),
    path("api/v1/", api.urls),
    path("language", set_language, name="set_language"),
    path("words.js", JavaScriptCatalog.as_view(), name="words"),
    path("admin/", site.urls),
]
