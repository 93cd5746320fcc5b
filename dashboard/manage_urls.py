"""Addresses of the pages on which people govern the cluster, below /manage/."""

from __future__ import annotations

from django.urls import path

from dashboard.views import quota_editor

urlpatterns = [
    path("quotas", quota_editor.editor, name="quota_editor"),
    path("quotas/preview", quota_editor.preview, name="quota_preview"),
    path("quotas/review", quota_editor.review, name="quota_review"),
    path("quotas/save", quota_editor.save, name="quota_save"),
]
