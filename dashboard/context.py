"""What the frame of every page needs: navigation, counts, who is there, language and theme."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from access.models import User
from access.scopes import UserAuthority, authority_of, role_of, visibility_of
from dashboard import words
from scheduler.operations.authority import Action
from scheduler.queries import emergency_words
from scheduler.queries.frame import FrameCounts, read_frame_counts
from scheduler.queries.notices import count_unread

THEME_COOKIE = "tidegate_theme"
THEMES = ("light", "dark")
#: Under which a request keeps what was found for it.
KEPT = "tidegate_frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class NavItem:
    """One line of the navigation."""

    name: str
    label: str
    icon: str
    count: int | None = None
    #: "page" where it is the page that is shown, "true" where that page is below it.
    current: str = ""


def frame(request: HttpRequest) -> dict[str, object]:
    """Return the frame's values; a page that is made of several templates asks for them once."""
    kept: dict[str, object] | None = vars(request).get(KEPT)
    if kept is None:
        kept = vars(request)[KEPT] = _frame(request)
    return dict(kept)


def _frame(request: HttpRequest) -> dict[str, object]:
    """Return the frame's values; for someone who is not signed in only language and theme."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    values: dict[str, object] = {
        "theme": theme if theme in THEMES else "",
        "html_lang": "zh-Hant" if (get_language() or "").startswith("zh") else "en",
    }
    user = getattr(request, "user", None)
    if not isinstance(user, User):
        return values
    counts = read_frame_counts(visible=visibility_of(user=user))
    role = role_of(user=user)
    authority = authority_of(user=user, door="page")
    parts = (_nav(counts), _nav_analysis(), _nav_manage(authority))
    nav, nav_analysis, nav_manage = _with_current(request.path, parts)
    return {
        **values,
        "nav": nav,
        "nav_analysis": nav_analysis,
        "unread": count_unread(username=user.get_username()),
        "nav_manage": nav_manage,
        "cluster_name": counts.cluster_name,
        "controls": [(row, emergency_words.in_force(row)) for row in counts.controls],
        "may_govern_controls": authority.may_anywhere(Action.POLICY, Action.NODES),
        "role_name": words.role_name(role) if role else _("No access rule yet"),
    }


def _with_current(
    path: str, parts: tuple[tuple[NavItem, ...], ...]
) -> tuple[tuple[NavItem, ...], ...]:
    """Mark the entry of the page at ``path``, else the one that the page is below."""
    addresses = {item.name: reverse(item.name) for part in parts for item in part}
    above = [
        name
        for name, address in addresses.items()
        if path == address or (address != "/" and path.startswith(address.rstrip("/") + "/"))
    ]
    nearest = max(above, key=lambda name: len(addresses[name]), default="")
    how = "page" if addresses.get(nearest) == path else "true"
    return tuple(
        tuple(replace(item, current=how) if item.name == nearest else item for item in part)
        for part in parts
    )


def _nav(counts: FrameCounts) -> tuple[NavItem, ...]:
    return (
        NavItem(name="overview", label=_("Overview"), icon="layout-dashboard"),
        NavItem(name="nodes", label=_("Nodes & GPUs"), icon="server", count=counts.gpus),
        NavItem(name="quotas", label=_("Quotas"), icon="network"),
        NavItem(name="workloads", label=_("Workloads"), icon="boxes", count=counts.workloads),
        NavItem(name="inference", label=_("Inference"), icon="zap", count=counts.services),
        NavItem(name="assets", label=_("Assets"), icon="copy"),
        NavItem(name="decisions", label=_("Decisions"), icon="scroll-text"),
    )


def _nav_analysis() -> tuple[NavItem, ...]:
    return (
        NavItem(name="reports", label=_("Reports"), icon="chart-column"),
        NavItem(name="idle", label=_("Idle time"), icon="hourglass"),
    )


def _nav_manage(authority: UserAuthority) -> tuple[NavItem, ...]:
    """Return what those who govern something find below the pages for all."""
    items = []
    if authority.may_anywhere(Action.PROJECT_QUOTA, Action.DEPARTMENT_QUOTA):
        items.append(
            NavItem(name="quota_editor", label=_("Quota editor"), icon="sliders-horizontal")
        )
    if authority.may_anywhere(Action.ACCESS):
        items.append(NavItem(name="people", label=_("People & roles"), icon="users"))
        items.append(NavItem(name="groups", label=_("Groups"), icon="user-cog"))
        items.append(
            NavItem(name="service_accounts", label=_("Service accounts"), icon="key-round")
        )
    if authority.may_anywhere(Action.WORK, Action.SERVE):
        items.append(NavItem(name="serve_requests", label=_("Requests to serve"), icon="check"))
    if authority.may_anywhere(Action.POLICY, Action.NODES):
        items.append(NavItem(name="alerts", label=_("Alerts"), icon="triangle-alert"))
        items.append(NavItem(name="emergency", label=_("Emergency"), icon="pause"))
    if authority.may_anywhere(Action.AUDIT):
        items.append(NavItem(name="audit", label=_("Audit log"), icon="history"))
    if authority.may(Action.NODES):
        items.append(NavItem(name="proof", label=_("Proof"), icon="play"))
        items.append(NavItem(name="admin:index", label=_("Administration site"), icon="settings"))
    return tuple(items)
