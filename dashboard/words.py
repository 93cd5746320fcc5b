"""Words for codes, in the reader's language. A code without a word raises."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from django.utils.translation import gettext as _

from scheduler.core.idle import RuleKind
from scheduler.core.notices import Kind as NoticeKind
from scheduler.core.units import format_gpu
from scheduler.core.vocabulary import AssetKind, Kind, Phase, Rank, SourceType
from scheduler.queries import phrases
from scheduler.queries.assets import AssetRow


def kind_name(kind: str) -> str:
    """Return a kind's word."""
    return {
        Kind.TRAINING: _("Training"),
        Kind.DISTRIBUTED: _("Distributed training"),
        Kind.WORKSPACE: _("Workspace"),
        Kind.INFERENCE: _("Inference"),
    }[Kind(kind)]


def phase_name(phase: str) -> str:
    """Return a phase's word."""
    return {
        Phase.PENDING: _("Waiting"),
        Phase.STARTING: _("Starting"),
        Phase.RUNNING: _("Running"),
        Phase.DEGRADED: _("Degraded"),
        Phase.STOPPING: _("Stopping"),
        Phase.STOPPED: _("Stopped"),
        Phase.COMPLETED: _("Finished"),
        Phase.FAILED: _("Failed"),
    }[Phase(phase)]


def rank_name(rank: int) -> str:
    """Return a rank's word."""
    return {
        Rank.HIGH: _("High"),
        Rank.MEDIUM_HIGH: _("Medium high"),
        Rank.MEDIUM: _("Medium"),
        Rank.MEDIUM_LOW: _("Medium low"),
        Rank.LOW: _("Low"),
    }[Rank(rank)]


def rule_kind_name(kind: str) -> str:
    """Return the word for a kind of work that an idle rule is for."""
    return {
        RuleKind.TRAINING: _("Training"),
        RuleKind.PREEMPTIBLE_WORKSPACE: _("Workspace that can be interrupted"),
        RuleKind.NON_PREEMPTIBLE_WORKSPACE: _("Workspace that can not be interrupted"),
    }[RuleKind(kind)]


def role_name(role: str) -> str:
    """Return a role's word."""
    return {
        "system_admin": _("Platform administrator"),
        "department_admin": _("Department administrator"),
        "project_admin": _("Project administrator"),
        "researcher": _("Researcher"),
        "ml_engineer": _("ML engineer"),
        "viewer": _("Viewer"),
    }[role]


def notice_kind(kind: NoticeKind) -> str:
    """Return what a kind of notices is about."""
    return {
        NoticeKind.STARTED: _("Own work begins to run"),
        NoticeKind.STATE: _("Own work has finished, failed, or was stopped by someone"),
        NoticeKind.TAKEN: _("Own work was reclaimed, preempted, moved or lost"),
        NoticeKind.LIMITS: _("Own work comes to a limit of idle or running time"),
        NoticeKind.SERVE: _("Requests to serve"),
        NoticeKind.QUOTA: _("Quotas of one's units change"),
        NoticeKind.NODES: _("Nodes are lost and come back"),
        NoticeKind.ALERTS: _("Alerts"),
        NoticeKind.EMERGENCY: _("Starts are paused or held, or reclaim and preemption are frozen"),
    }[kind]


def channel_name(channel: str) -> str:
    """Return a channel's word."""
    return {
        "page": _("Bell"),
        "email": _("E-mail"),
        "webhook": _("Webhook"),
        "slack": _("Slack or the like"),
    }[channel]


def digest_name(seconds: int) -> str:
    """Return for how long notices are gathered."""
    return _("as they come") if not seconds else duration(seconds)


def delivery_status(status: str) -> str:
    """Return how a message stands."""
    return {"waiting": _("on its way"), "sent": _("sent"), "dead": _("given up")}[status]


def target_refusal(code: str) -> str:
    """Return why an address can't be used, and the way out."""
    return {
        "bad_url": _(
            "Use a whole address that begins with https:// or http://, without a user name in it."
        ),
        "unknown_host": _("No number is found for this host name. Check its spelling."),
        "forbidden_network": _(
            "This address lies in a network that webhooks may not reach. An administrator can allow it "
            "with the setting TIDEGATE_WEBHOOK_NETWORKS."
        ),
    }[code]


def verification_status(status: str) -> str:
    """Return how a run of verifications, or one verification of it, stands."""
    return {
        "queued": _("Waiting to begin"),
        "waiting": _("Not yet"),
        "running": _("Running"),
        "passed": _("Passed"),
        "failed": _("Failed"),
        "cancelled": _("Cancelled"),
        "cut_short": _("Cut short"),
    }[status]


def verification_tone(status: str) -> str:
    """Return the class of the tag that says how it stands."""
    tones = {"passed": "ok", "failed": "evict", "cut_short": "over", "running": "acc"}
    return tones.get(status, "")


def day_name(day: int) -> str:
    """Return the short word of a weekday; Monday is 0."""
    return (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))[day]


def clock_of(minute: int) -> str:
    """Return a minute of the day as a 24-hour time."""
    return f"{minute // 60:02d}:{minute % 60:02d}"


def mark_name(name: str) -> str:
    """Return the word for one value of a checkpoint mark."""
    return {
        "epoch": _("Epoch"),
        "step": _("Step"),
        "elapsed_s": _("Elapsed"),
        "best": _("Best"),
        "size_bytes": _("Size"),
    }[name]


def duration(seconds: int) -> str:
    """Return "12 s", "41 min", "3 h 12 min" or "9 d"."""
    return phrases.duration(seconds)


def asset_kind_name(kind: str) -> str:
    """Return the word for one asset of a kind."""
    return {
        AssetKind.SOURCE: _("Data source"),
        AssetKind.ENVIRONMENT: _("Environment"),
        AssetKind.CREDENTIAL: _("Credential"),
        AssetKind.TEMPLATE: _("Template"),
    }[AssetKind(kind)]


def asset_kinds_name(kind: str) -> str:
    """Return the word for all assets of a kind."""
    return {
        AssetKind.SOURCE: _("Data sources"),
        AssetKind.ENVIRONMENT: _("Environments"),
        AssetKind.CREDENTIAL: _("Credentials"),
        AssetKind.TEMPLATE: _("Templates"),
    }[AssetKind(kind)]


def source_type_name(source: str) -> str:
    """Return the word for where a data source lies."""
    return {
        SourceType.TREE: _("Uploaded files"),
        SourceType.GIT: _("Git"),
        SourceType.S3: _("S3"),
        SourceType.HOST_PATH: _("Path of this machine"),
        SourceType.NFS: _("NFS"),
    }[SourceType(source)]


def asset_in_scope(row: AssetRow) -> str:
    """Return an asset's name with the scope in which it is defined."""
    return _("{name} ({scope})").format(
        name=row.name, scope=row.scope_name or _("the whole cluster")
    )


def source_place(definition: Mapping[str, object]) -> str:
    """Return in one line where a data source lies."""
    said = {name: str(definition.get(name) or "") for name in ("url", "revision", "path", "server")}
    match SourceType(str(definition["type"])):
        case SourceType.TREE:
            return str(definition.get("files", 0))
        case SourceType.GIT:
            return f"{said['url']} {said['revision']}".strip()
        case SourceType.S3:
            return f"{definition['endpoint']} {definition['bucket']}/{definition['folder']}"
        case SourceType.HOST_PATH:
            return said["path"]
        case SourceType.NFS:
            return f"{said['server']}:{said['path']}"


def asset_facts(kind: AssetKind, definition: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return what an asset is made of, as pairs of a word and a value. Never a secret."""
    match kind:
        case AssetKind.SOURCE:
            is_tree = definition["type"] == SourceType.TREE
            return [
                (_("Where the data lie"), source_type_name(str(definition["type"]))),
                (_("Files") if is_tree else _("Place"), source_place(definition)),
            ]
        case AssetKind.ENVIRONMENT:
            env, command = definition.get("env"), definition.get("command")
            return [
                (_("Command"), shlex.join(command) if isinstance(command, list) else ""),
                (_("Variables"), ", ".join(f"{k}={v}" for k, v in _pairs(env))),
                (_("Working directory"), str(definition.get("working_dir", ""))),
                (_("Readiness path"), str(definition.get("readiness_path", ""))),
            ]
        case AssetKind.CREDENTIAL:
            names = definition.get("names")
            said = ", ".join(map(str, names)) if isinstance(names, list) else ""
            return [(_("Values"), said)]
        case AssetKind.TEMPLATE:
            kept = definition.get("submission")
            return _template_facts(kept if isinstance(kept, dict) else {})


def _template_facts(kept: Mapping[str, object]) -> list[tuple[str, str]]:
    command = kept.get("command")
    return [
        (_("Kind"), kind_name(str(kept["kind"]))),
        (_("GPUs a replica"), format_gpu(int(str(kept["request_mgpu"])))),
        (_("Command"), shlex.join(command) if isinstance(command, list) else ""),
    ]


def _pairs(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []
