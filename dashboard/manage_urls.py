"""Addresses of the pages on which people govern the cluster, below /manage/."""

from __future__ import annotations

from django.urls import path

from dashboard.views import (
    alerts,
    audit,
    emergency,
    people,
    proof,
    quota_editor,
    quota_files,
    quota_replays,
    quota_schedules,
)

urlpatterns = [
    path("quotas", quota_editor.editor, name="quota_editor"),
    path("quotas/preview", quota_editor.preview, name="quota_preview"),
    path("quotas/review", quota_editor.review, name="quota_review"),
    path("quotas/save", quota_editor.save, name="quota_save"),
    path("quotas/file", quota_files.transfer, name="quota_file"),
    path("quotas/export.<str:ending>", quota_files.export, name="quota_export"),
    path("quotas/replay", quota_replays.ask, name="quota_replay_ask"),
    path("quotas/replay/<int:replay_id>", quota_replays.replay, name="quota_replay"),
    path("quotas/schedule", quota_schedules.schedules, name="quota_schedules"),
    path(
        "quotas/schedule/<int:schedule_id>/cancel",
        quota_schedules.cancel,
        name="quota_schedule_cancel",
    ),
    path("people", people.people_page, name="people"),
    path("people/new", people.create, name="people_create"),
    path("people/grant", people.grant, name="people_grant"),
    path("people/<int:user_id>", people.change, name="people_change"),
    path("people/rules/<int:rule_id>/revoke", people.revoke, name="people_revoke"),
    path("alerts", alerts.alerts, name="alerts"),
    path("alerts/rule", alerts.save_rule, name="alert_rule_save"),
    path("alerts/rules/<int:rule_id>/delete", alerts.delete_rule, name="alert_rule_delete"),
    path("alerts/rules/<int:rule_id>/silence", alerts.silence, name="alert_rule_silence"),
    path("alerts/<int:alert_id>/acknowledge", alerts.acknowledge, name="alert_acknowledge"),
    path("proof", proof.proof, name="proof"),
    path("proof/<int:run_id>", proof.run, name="proof_run"),
    path("proof/<int:run_id>/lines", proof.lines, name="proof_lines"),
    path("proof/<int:run_id>/cancel", proof.cancel, name="proof_cancel"),
    path("proof/<int:run_id>/document", proof.document, name="proof_document"),
    path("emergency", emergency.emergency, name="emergency"),
    path("emergency/set", emergency.set_control, name="emergency_set"),
    path("emergency/<int:control_id>/end", emergency.end_control, name="emergency_end"),
    path("audit", audit.audit, name="audit"),
    path("audit.csv", audit.export, name="audit_export"),
]
