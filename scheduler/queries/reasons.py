"""Why a workload waits and what would make it run: the core's code and numbers as sentences.

The one place where these sentences are made, in the reader's language. Numbers come as the core
recorded them; names of queues come from the caller, who knows what the reader may see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from scheduler.core.units import UNLIMITED_MGPU, WHOLE_GPU_MGPU, format_gpu
from scheduler.core.vocabulary import Lack, Level, Reason
from scheduler.queries.phrases import Phrase, phrase, plain, strong

Numbers = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why, and what would have to change. ``code`` is shown small, for search and support."""

    why: Phrase
    runs_when: Phrase
    code: str
    never: bool = False

    @property
    def text(self) -> str:
        """Return both sentences as text."""
        return f"{plain(self.why)} {plain(self.runs_when)}".strip()


def why_waiting(*, code: str, numbers: Numbers, queue: str, told: bool = True) -> Waiting:
    """Return the sentences for a reason; ``queue`` is the project or department that it is about.

    ``told`` False: without figures that come of what others hold.

    Raises:
        KeyError: a reason that has no sentence.
    """
    if not told:
        numbers = _own_figures(numbers)
    if not code:
        return Waiting(
            why=phrase(_("Waits for the scheduler's next cycle.")), runs_when=(), code=""
        )
    why, runs_when = _SENTENCES[Reason(code)](numbers, queue)
    return Waiting(
        why=(*phrase(_("Can't run as configured.")), *phrase(" "), *why)
        if numbers.get("never")
        else why,
        runs_when=runs_when,
        code=code,
        never=bool(numbers.get("never")),
    )


def _own_figures(numbers: Numbers) -> Numbers:
    """Return the figures of the workload and of its own project: what is asked for, and its own bounds."""
    kept = {"code", "resource", "level", "queue", "requested", "never", "next_try_at_us", "lacks"}
    if numbers.get("level") != Level.DEPARTMENT:
        kept |= {"limit", "quota", "allocated"}
    return {name: value for name, value in numbers.items() if name in kept}


def lacks_in_words(numbers: Numbers) -> tuple[str, ...]:
    """Return what how many nodes lack, the most frequent first."""
    lacks = numbers.get("lacks")
    if not isinstance(lacks, Mapping):
        return ()
    counted = sorted(lacks.items(), key=lambda item: (-int(item[1]), str(item[0])))
    return tuple(_lack_in_words(Lack(name), int(count)) for name, count in counted)


def _over_limit(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    resource = str(numbers.get("resource") or "gpu")
    held, limit, asked = (_int(numbers, key) for key in ("allocated", "limit", "requested"))
    if "limit" not in numbers:
        return phrase(
            _("Over department limit: {queue} has no room for the {asked} that this asks for."),
            queue=strong(queue),
            asked=_amount(asked, resource),
        ), phrase(_("Runs when enough of it is released or its limit is raised."))
    template = (
        _("Over department limit: {queue} holds {held} of {limit} and this asks for {asked}.")
        if numbers.get("level") == Level.DEPARTMENT
        else _("Over project limit: {queue} holds {held} of {limit} and this asks for {asked}.")
    )
    why = phrase(
        template,
        queue=strong(queue),
        held=_amount(held, resource),
        limit=_amount(limit, resource),
        asked=_amount(asked, resource),
    )
    if "promised" in numbers:
        promised = phrase(
            _("Its projects are guaranteed {promised} in all, which is more than that limit."),
            promised=_amount(_int(numbers, "promised"), resource),
        )
        why = (*why, *phrase(" "), *promised)
    if asked > limit:
        return why, phrase(_("Runs when the limit is raised or it asks for less."))
    gap = _amount(held + asked - limit, resource)
    return why, phrase(_("Runs when {queue} releases {gap}."), queue=queue, gap=gap)


def _over_quota(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    resource = str(numbers.get("resource") or "gpu")
    protected, quota, asked = (_int(numbers, key) for key in ("allocated", "quota", "requested"))
    if "quota" not in numbers:
        return phrase(
            _(
                "It can't be interrupted, so it may not borrow, and the guarantee of {queue} has no "
                "room for the {asked} that this asks for."
            ),
            queue=strong(queue),
            asked=_amount(asked, resource),
        ), phrase(_("Runs when “May be interrupted” is set to yes, so that it may borrow."))
    why = phrase(
        _(
            "It can't be interrupted, so it may not borrow: {queue} guarantees {quota}, of which "
            "{protected} is taken by such work, and this asks for {asked}."
        ),
        queue=strong(queue),
        quota=_amount(quota, resource),
        protected=_amount(protected, resource),
        asked=_amount(asked, resource),
    )
    if asked > quota:
        return why, phrase(
            _("Runs when “May be interrupted” is set to yes, so that it may borrow.")
        )
    gap = _amount(protected + asked - quota, resource)
    return why, phrase(
        _("Runs when {gap} of that is released, or when “May be interrupted” is set to yes."),
        gap=gap,
    )


def _no_node(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    asked = _amount(_int(numbers, "requested"), str(numbers.get("resource") or "gpu"))
    why = phrase(_("No node can take it: a replica asks for {asked}."), asked=asked)
    return why + _detail(numbers), phrase(_("Runs when such a node joins or it asks for less."))


def _too_little(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    resource = str(numbers.get("resource") or "gpu")
    free, asked = _int(numbers, "free"), _int(numbers, "requested")
    if "free" not in numbers:
        return phrase(
            _("Not enough is free on the nodes that match: this asks for {asked}."),
            asked=_amount(asked, resource),
        ), phrase(_("Runs when enough becomes free."))
    why = phrase(
        _("Not enough is free: {free} on the nodes that match, and this asks for {asked}."),
        free=_amount(free, resource),
        asked=_amount(asked, resource),
    )
    gap = _amount(max(0, asked - free), resource)
    return why, phrase(_("Runs when {gap} more becomes free."), gap=gap)


def _fragmented(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    free, largest, asked = (_int(numbers, key) for key in ("free", "largest", "requested"))
    why = (
        phrase(
            _(
                "Enough is free, but in pieces: {free} in all, the largest single slot is {largest}."
            ),
            free=_amount(free, "gpu"),
            largest=_amount(largest, "gpu"),
        )
        if "free" in numbers
        else phrase(_("Enough is free, but in pieces."))
    )
    if asked >= WHOLE_GPU_MGPU:
        return why, phrase(
            _("Runs when whole GPUs for {asked} are free on one node."), asked=_amount(asked, "gpu")
        )
    return why, phrase(_("Runs when one GPU has {asked} free."), asked=_amount(asked, "gpu"))


def _reserved(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    return (
        phrase(_("It would fit, but the place is kept for work that has waited longer.")),
        phrase(_("Runs after that work has started.")),
    )


def _nominated(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    return (
        phrase(_("It would fit, but the place is being vacated for another workload.")),
        phrase(_("Runs when another place is free.")),
    )


def _backing_off(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    next_try_us = _int(numbers, "next_try_at_us")
    at = timezone.localtime(datetime.fromtimestamp(next_try_us / 1_000_000, tz=UTC))
    return (
        phrase(_("The last start failed, so it pauses before the next one.")),
        phrase(_("Tries again at {time}."), time=f"{at:%H:%M:%S}"),
    )


def _starts_paused(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    if numbers.get("level") is None:
        why = phrase(_("Starts are paused in the whole cluster. What runs goes on."))
    else:
        why = phrase(_("Starts are paused in {queue}. What runs goes on."), queue=strong(queue))
    return why, _after_control(numbers)


def _held_back(numbers: Numbers, queue: str) -> tuple[Phrase, Phrase]:
    return phrase(_("An administrator holds this workload back.")), _after_control(numbers)


def _after_control(numbers: Numbers) -> Phrase:
    until_us = _int(numbers, "next_try_at_us")
    at = timezone.localtime(datetime.fromtimestamp(until_us / 1_000_000, tz=UTC))
    return phrase(
        _("Runs in its turn after {time}, or when an administrator ends this before."),
        time=f"{at:%m-%d %H:%M}",
    )


_SENTENCES: dict[Reason, Callable[[Numbers, str], tuple[Phrase, Phrase]]] = {
    Reason.OVER_LIMIT: _over_limit,
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: _over_quota,
    Reason.NO_MATCHING_NODE: _no_node,
    Reason.INSUFFICIENT_RESOURCES: _too_little,
    Reason.FRAGMENTED: _fragmented,
    Reason.RESERVED: _reserved,
    Reason.NOMINATED: _nominated,
    Reason.BACKING_OFF: _backing_off,
    Reason.STARTS_PAUSED: _starts_paused,
    Reason.HELD_BACK: _held_back,
}


_NAMES: dict[Reason, str] = {
    Reason.OVER_LIMIT: gettext_noop("A limit was reached"),
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: gettext_noop(
        "The guarantee was used up, and it may not borrow"
    ),
    Reason.NO_MATCHING_NODE: gettext_noop("No node could take it"),
    Reason.INSUFFICIENT_RESOURCES: gettext_noop("Not enough was free"),
    Reason.FRAGMENTED: gettext_noop("Enough was free, but in pieces"),
    Reason.RESERVED: gettext_noop("The place was kept for longer waiting work"),
    Reason.NOMINATED: gettext_noop("The place was being vacated for other work"),
    Reason.BACKING_OFF: gettext_noop("Pause after a failed start"),
    Reason.STARTS_PAUSED: gettext_noop("Starts were paused"),
    Reason.HELD_BACK: gettext_noop("Held back by an administrator"),
}


def name_of(reason: Reason) -> str:
    """Return a reason as a few words, as it looks from afterwards."""
    return _(_NAMES[reason])


def _detail(numbers: Numbers) -> Phrase:
    words = lacks_in_words(numbers)
    return phrase(" ({detail})", detail=_("; ").join(words)) if words else ()


def _lack_in_words(lack: Lack, count: int) -> str:
    templates = {
        Lack.NOT_SCHEDULABLE: ngettext(
            "{n} node takes no new work", "{n} nodes take no new work", count
        ),
        Lack.LABELS: ngettext("{n} node lacks the label", "{n} nodes lack the label", count),
        Lack.GPU_MODEL: ngettext(
            "{n} node has another GPU model", "{n} nodes have another GPU model", count
        ),
        Lack.DEVICES: ngettext("{n} node has too few GPUs", "{n} nodes have too few GPUs", count),
        Lack.GPU: ngettext(
            "{n} node has too little free GPU", "{n} nodes have too little free GPU", count
        ),
        Lack.GPU_FRAGMENTED: ngettext(
            "{n} node has free GPU only in pieces", "{n} nodes have free GPU only in pieces", count
        ),
        Lack.CPU: ngettext("{n} node has too little CPU", "{n} nodes have too little CPU", count),
        Lack.MEMORY: ngettext(
            "{n} node has too little memory", "{n} nodes have too little memory", count
        ),
        Lack.KEPT: ngettext(
            "{n} node is kept for other work", "{n} nodes are kept for other work", count
        ),
    }
    return templates[lack].format(n=count)


def _amount(value: int, resource: str) -> str:
    if value >= UNLIMITED_MGPU:
        return _("no limit")
    if resource == "cpu":
        return _("{n} CPU").format(n=format_gpu(value))
    if resource in ("memory", "gpu_memory"):
        return _("{n} MiB").format(n=f"{value:,}")
    return format_gpu(value)


def _int(numbers: Numbers, key: str) -> int:
    value = numbers.get(key)
    return value if isinstance(value, int) else 0
