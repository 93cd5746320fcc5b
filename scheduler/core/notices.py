"""What people are told of, in kinds, and where each kind goes unless they choose."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ChannelType(StrEnum):
    """The ways to a person outside of the pages."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"


#: The bell, which everyone has, and the others.
PAGE = "page"
CHANNELS = (PAGE, *(each.value for each in ChannelType))


class Kind(StrEnum):
    """What notices are about; each person chooses where each kind goes."""

    STARTED = "started"
    STATE = "state"
    TAKEN = "taken"
    LIMITS = "limits"
    SERVE = "serve"
    QUOTA = "quota"
    NODES = "nodes"
    ALERTS = "alerts"
    EMERGENCY = "emergency"


KIND_OF = {
    "work_running": Kind.STARTED,
    "work_completed": Kind.STATE,
    "work_failed": Kind.STATE,
    "work_stopped": Kind.STATE,
    "reclaimed": Kind.TAKEN,
    "preempted": Kind.TAKEN,
    "moved": Kind.TAKEN,
    "work_lost": Kind.TAKEN,
    "drain_begun": Kind.TAKEN,
    "drained": Kind.TAKEN,
    "idle_warned": Kind.LIMITS,
    "idle_stop": Kind.LIMITS,
    "runtime_warned": Kind.LIMITS,
    "runtime_stop": Kind.LIMITS,
    "serve_requested": Kind.SERVE,
    "serve_approved": Kind.SERVE,
    "serve_declined": Kind.SERVE,
    "quota_changed": Kind.QUOTA,
    "quota_switch_short": Kind.QUOTA,
    "quota_switch_arrived": Kind.QUOTA,
    "quota_switch_refused": Kind.QUOTA,
    "node_lost": Kind.NODES,
    "node_back": Kind.NODES,
    "node_emptied": Kind.NODES,
    "drain_late": Kind.NODES,
    "alert_raised": Kind.ALERTS,
    "alert_cleared": Kind.ALERTS,
    "budget_reached": Kind.ALERTS,
    "emergency_set": Kind.EMERGENCY,
    "emergency_ended": Kind.EMERGENCY,
}
#: What becomes of own work stands on the page, that it runs nowhere; all else goes to every
#: channel that one has.
DEFAULTS: Mapping[Kind, tuple[str, ...]] = {
    **dict.fromkeys(Kind, CHANNELS),
    Kind.STATE: (PAGE,),
    Kind.STARTED: (),
}
