"""How amounts, times and sentences look on a page. ``static/js/lib/format.js`` is the twin."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from dashboard import words
from scheduler.core.units import format_gpu
from scheduler.queries import alert_words
from scheduler.queries.phrases import Phrase, Span

register = template.Library()
UNKNOWN = "–"


@register.filter
def gpu(mgpu: int | None) -> str:
    """Return milli-GPU as text: 90 is "0.09"; unknown is a dash, never 0."""
    return UNKNOWN if mgpu is None else format_gpu(mgpu)


@register.filter
def quota(mgpu: int | None) -> str:
    """Return a bound: whole numbers without places, None as "no limit"."""
    if mgpu is None:
        return _("no limit")
    return str(mgpu // 1000) if mgpu % 1000 == 0 else format_gpu(mgpu)


@register.filter
def thousandths(amount: int) -> str:
    """Return a weight as people write it: 1500 is "1.5"."""
    return f"{amount / 1000:g}"


@register.filter
def asked(row: object) -> str:
    """Return what a workload asks for: a share, GPU memory, or no GPU."""
    memory_mib = getattr(row, "gpu_memory_mib", None)
    if memory_mib:
        return _("{n} MiB").format(n=f"{memory_mib:,}")
    mgpu = getattr(row, "asked_mgpu", None)
    mgpu = getattr(row, "request_mgpu", 0) if mgpu is None else mgpu
    return _("{n} GPU").format(n=format_gpu(mgpu)) if mgpu else _("no GPU")


@register.filter
def percent(part: int, whole: int) -> str:
    """Return ``part`` of ``whole`` as "93%", one decimal only under 1."""
    if not whole:
        return UNKNOWN
    share = 100 * part / whole
    return f"{share:.1f}%" if 0 < share < 1 else f"{share:.0f}%"


@register.filter
def permille(value: int | None) -> str:
    """Return tenths of a percent as percent."""
    return UNKNOWN if value is None else percent(value, 1000)


@register.filter
def duration(seconds: int | None) -> str:
    """Return "12 s", "41 min", "3 h 12 min" or "9 d"."""
    return UNKNOWN if seconds is None else words.duration(seconds)


@register.filter
def lasted(seconds: float) -> str:
    """Return a length as a duration, one under ten seconds with one decimal."""
    if 0 < seconds < 9.95:
        return _("{n} s").format(n=f"{seconds:.1f}")
    return words.duration(round(seconds))


@register.filter
def age(at: datetime | None) -> str:
    """Return the time since ``at`` as a duration."""
    if at is None:
        return UNKNOWN
    return words.duration(max(0, int((timezone.now() - at).total_seconds())))


@register.filter
def ms(at: datetime | None) -> str:
    """Return an instant as milliseconds since 1970, for scripts."""
    return "" if at is None else str(int(at.timestamp() * 1000))


@register.filter
def clock(at: datetime | None) -> str:
    """Return an instant as 24-hour time in the reader's zone."""
    return UNKNOWN if at is None else f"{timezone.localtime(at):%H:%M:%S}"


@register.filter
def moment(at: datetime | None) -> str:
    """Return an instant as date and 24-hour time in the reader's zone."""
    return UNKNOWN if at is None else f"{timezone.localtime(at):%Y-%m-%d %H:%M}"


@register.filter
def mib(value: int | None) -> str:
    """Return an amount of memory."""
    return UNKNOWN if value is None else _("{n} MiB").format(n=f"{value:,}")


@register.filter
def kind_name(kind: str) -> str:
    """Return a kind's word."""
    return words.kind_name(kind)


@register.filter
def phase_name(phase: str) -> str:
    """Return a phase's word."""
    return words.phase_name(phase)


@register.filter
def rank_name(rank: int) -> str:
    """Return a rank's word."""
    return words.rank_name(rank)


@register.filter
def rule_kind_name(kind: str) -> str:
    """Return the word for a kind of work that an idle rule is for."""
    return words.rule_kind_name(kind)


@register.filter
def role_name(role: str) -> str:
    """Return a role's word."""
    return words.role_name(role)


@register.filter
def verification_status(status: str) -> str:
    """Return how a verification stands."""
    return words.verification_status(status)


@register.filter
def verification_tone(status: str) -> str:
    """Return the class of the tag that says so."""
    return words.verification_tone(status)


@register.filter
def delivery_status(status: str) -> str:
    """Return how a message stands."""
    return words.delivery_status(status)


@register.filter
def channel_name(channel: str) -> str:
    """Return a channel's word."""
    return words.channel_name(channel)


@register.filter
def metric_name(metric: str) -> str:
    """Return what an alert rule watches."""
    return alert_words.metric_name(metric)


@register.simple_tag
def figure(metric: str, value: int | None) -> str:
    """Return a watched figure with its unit."""
    return alert_words.figure(metric, value)


@register.filter
def item_name(name: str) -> str:
    """Return the word for one value of a checkpoint mark."""
    return words.mark_name(name)


@register.filter
def whole(value: int | None) -> str:
    """Return a whole number with its thousands apart."""
    return UNKNOWN if value is None else f"{value:,}"


@register.filter
def metric(value: float) -> str:
    """Return a number that a workload reported, with at most six figures that count."""
    return f"{value:,.6g}"


@register.filter
def pace(steps_a_second: float) -> str:
    """Return a rate in the unit in which it is at least one."""
    for seconds, said in ((1, _("{n} steps/s")), (60, _("{n} steps/min"))):
        if steps_a_second * seconds >= 1:
            return said.format(n=f"{steps_a_second * seconds:,.3g}")
    return _("{n} steps/h").format(n=f"{steps_a_second * 3600:,.3g}")


@register.filter
def shell(command: Sequence[str]) -> str:
    """Return a command as one would type it."""
    return shlex.join(command)


@register.filter
def sentence(phrase: Phrase) -> SafeString:
    """Return a phrase as HTML: names stand out, those of workloads are links."""
    return format_html_join("", "{}", ((_span(span),) for span in phrase))


def _span(span: Span) -> str:
    if not span.strong:
        return format_html("{}", span.text)
    if span.workload_id is None:
        return format_html("<b>{}</b>", span.text)
    address = reverse("workload", args=[span.workload_id])
    return format_html('<a href="{}"><b>{}</b></a>', address, span.text)
