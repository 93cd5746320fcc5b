"""Which pages are photographed, and how the address of one with an id is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One page: its file's name and its address, or the page whose first such link leads to it."""

    name: str
    path: str
    #: A pattern of an address that the page at ``path`` links to.
    link: str = ""
    #: Pressed once the page is there.
    press: str = ""
    #: Photographed without a sign-in.
    signed_out: bool = False


SHOTS = (
    Shot(name="overview", path="/"),
    Shot(name="login", path="/login", signed_out=True),
    Shot(name="map", path="/map"),
    Shot(name="map-departments", path="/map?group=department&color=type"),
    Shot(name="map-table", path="/map?table=1"),
    Shot(name="nodes", path="/nodes"),
    Shot(name="device", path="/nodes", link=r"/nodes/[\w-]+/\d+"),
    Shot(name="quotas", path="/quotas"),
    Shot(name="project", path="/projects/nlp-lab"),
    Shot(name="department", path="/departments/research"),
    Shot(name="workloads", path="/workloads"),
    Shot(name="workloads-waiting", path="/workloads?state=pending"),
    Shot(name="workloads-none", path="/workloads?q=no-such-name"),
    Shot(
        name="workload-running",
        path="/workloads?state=running&type=training",
        link=r"/workloads/\d+",
    ),
    Shot(name="workload-waiting", path="/workloads?state=pending", link=r"/workloads/\d+"),
    Shot(name="workload-failed", path="/workloads?state=failed", link=r"/workloads/\d+"),
    Shot(name="workload-new", path="/workloads/new"),
    Shot(name="inference", path="/inference"),
    Shot(name="service", path="/inference", link=r"/inference/\d+"),
    Shot(name="gateway-keys", path="/inference/keys"),
    Shot(name="assets", path="/assets"),
    Shot(name="asset-new", path="/assets/new?kind=environment"),
    Shot(name="decisions", path="/decisions"),
    Shot(name="decision-reclaim", path="/decisions?verb=reclaim", link=r"/decisions/\d+"),
    Shot(name="decision-deny", path="/decisions?verb=deny", link=r"/decisions/\d+"),
    Shot(name="reports", path="/reports?period=today"),
    Shot(name="reports-promise", path="/reports/promise"),
    Shot(name="reports-money", path="/reports/money"),
    Shot(name="reports-savings", path="/reports/savings"),
    Shot(name="reports-intervals", path="/reports/intervals"),
    Shot(name="reports-saved", path="/reports/saved"),
    Shot(name="report-saved", path="/reports/saved", link=r"/reports/saved/\d+"),
    Shot(name="idle", path="/idle"),
    Shot(name="search", path="/search?q=nlp"),
    Shot(name="search-none", path="/search?q=zzzz"),
    Shot(name="keys", path="/workloads", press="[data-keys]"),
    Shot(name="notices", path="/notices"),
    Shot(name="notice-settings", path="/notices/settings"),
    Shot(name="account", path="/account"),
    Shot(name="quota-editor", path="/manage/quotas"),
    Shot(name="quota-file", path="/manage/quotas/file"),
    Shot(name="quota-schedules", path="/manage/quotas/schedule"),
    Shot(name="people", path="/manage/people"),
    Shot(name="groups", path="/manage/groups"),
    Shot(name="service-accounts", path="/manage/service-accounts"),
    Shot(name="serve-requests", path="/requests"),
    Shot(name="alerts", path="/manage/alerts"),
    Shot(name="audit", path="/manage/audit"),
    Shot(name="proof", path="/manage/proof"),
    Shot(name="not-found", path="/workloads/987654321"),
)


def find_address(shot: Shot, *, read: Callable[[str], str]) -> str:
    """Return where a page is; ``read`` gives a page's HTML. Empty: there is none such now."""
    if not shot.link:
        return shot.path
    found = re.search(rf'href="({shot.link})"', read(shot.path))
    return found[1] if found else ""
