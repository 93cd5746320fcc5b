"""The quota tree as a download, for the page and the API alike."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpResponse

from scheduler.queries.pool_state import list_pools
from scheduler.queries.quota_files import write_file
from scheduler.queries.quota_tree import read_pool_tree
from scheduler.queries.visibility import Visibility

CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "yaml": "application/yaml; charset=utf-8"}


def answer_tree(*, visible: Visibility, ending: str, now: datetime) -> HttpResponse:
    """Answer all rows that the reader sees, of all pools, as a file that can be imported.

    ``ending``: "csv" (with the mark by which spreadsheets know UTF-8) or "yaml".
    """
    trees = [read_pool_tree(visible=visible, pool=pool) for pool in list_pools(visible=visible)]
    text = write_file(trees, ending=ending)
    answer = HttpResponse(
        ("\ufeff" + text if ending == "csv" else text).encode(), content_type=CONTENT_TYPES[ending]
    )
    answer["Content-Disposition"] = f'attachment; filename="tidegate-quotas-{now:%Y%m%d}.{ending}"'
    return answer
