"""Alerts in the reader's language: what is watched, figures with their units, and the sentences."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from scheduler.core.alerts import Metric
from scheduler.core.units import format_gpu
from scheduler.queries.phrases import Phrase, duration, phrase, strong


def metric_name(metric: str) -> str:
    """Return what a rule watches."""
    return {
        Metric.UNMET_GUARANTEE_MGPU: _("Guaranteed, asked for and not given"),
        Metric.IDLE_SHARE_PERMILLE: _("Idle part of what is held"),
        Metric.LONGEST_WAIT_S: _("Longest wait"),
        Metric.LIMIT_USED_PERMILLE: _("Fullest limit"),
        Metric.COLD_START_MS: _("Longest cold start in an hour"),
        Metric.LATENCY_MS: _("Mean answer time of the slowest service"),
        Metric.BUDGET_SPENT_PERMILLE: _("Month's cost as part of the fullest budget"),
        Metric.UNWATCHED_WORKLOADS: _("Running workloads that can't be watched"),
    }[Metric(metric)]


def figure(metric: str, value: object) -> str:
    """Return a figure with its unit; a dash where it is not known."""
    if not isinstance(value, int):
        return "–"
    match Metric(metric):
        case Metric.UNMET_GUARANTEE_MGPU:
            return _("{n} GPU").format(n=format_gpu(value))
        case Metric.IDLE_SHARE_PERMILLE | Metric.LIMIT_USED_PERMILLE | Metric.BUDGET_SPENT_PERMILLE:
            return f"{value / 10:.0f}%" if value % 10 == 0 else f"{value / 10:.1f}%"
        case Metric.LONGEST_WAIT_S:
            return duration(value)
        case Metric.COLD_START_MS | Metric.LATENCY_MS:
            return _("{n} s").format(n=f"{value / 1000:.1f}")
        case Metric.UNWATCHED_WORKLOADS:
            return str(value)


def alert_in_words(code: str, params: Mapping[str, object]) -> Phrase:
    """Return what is said when an alert is raised or over."""
    metric = str(params.get("metric"))
    template = (
        _("Alert {rule} in {scope}: {what} is {value}, above {threshold} for {time}.")
        if code == "alert_raised"
        else _("Alert {rule} in {scope} is over: {what} is {value}.")
    )
    for_s = params.get("for_s")
    return phrase(
        template,
        rule=strong(params.get("rule") or "?"),
        scope=str(params.get("scope") or _("the whole cluster")),
        what=metric_name(metric),
        value=strong(figure(metric, params.get("value"))),
        threshold=figure(metric, params.get("threshold")),
        time=duration(for_s) if isinstance(for_s, int) else "?",
    )
