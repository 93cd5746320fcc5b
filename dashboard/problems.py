"""What an operation refused, in the reader's language, by code; English where a code is new."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from scheduler.core.units import format_gpu
from scheduler.operations.authority import NotPermitted
from scheduler.operations.refused import Problem


def in_words(problem: Problem) -> str:
    """Return the sentence for a problem: what is wrong and the way out."""
    template = _template(problem.code)
    if not template:
        return problem.message
    return template.format(**_places(problem.params))


def refusal(error: NotPermitted) -> str:
    """Return why a role is not enough, and the way out."""
    template = {
        "serve_by_request": _(
            "Your role may not put models into service in {project}. Send a request to serve: a "
            "project admin, an ML engineer or someone above of it decides."
        ),
        "work_is_view_only": _(
            "Your role may only look at workspaces and trainings in {project}. Ask an admin of it "
            "for the role of a researcher."
        ),
        "may_not_decide": _(
            "Your role may not put models into service in {project}, so it may not decide."
        ),
        "schedule_of_others": _(
            "“{name}” also sets rows that are not yours to change. Ask a system admin."
        ),
        "keep_is_for_admins": _("The rule of {project} lets only its admins keep idle work."),
    }.get(error.code)
    return template.format(**error.params) if template else str(error)


def _template(code: str) -> str:
    return {
        "name_taken": _("{project} already has a workload called {name}. Choose another name."),
        "bad_name": _(
            "Use 1 to 63 small letters, digits and hyphens, beginning and ending with a letter or "
            "digit."
        ),
        "bad_fraction": _("Ask for a fraction from 0.001 to 0.999 of a GPU, or for whole GPUs."),
        "both_share_and_memory": _("Ask for a share of a GPU or for GPU memory, not for both."),
        "bad_count": _("Ask for 1 to 64 devices a replica."),
        "negative": _("Must not be negative."),
        "one_replica": _("It has one replica. Use a distributed training for more."),
        "bad_bounds": _("The minimum must not be above the maximum, and the maximum is 1 to 1024."),
        "bad_priority": _("A priority is a number from 1 to 1000."),
        "bad_grace": _("Use 0 to 300 seconds."),
        "non_preemptible_over_quota": _(
            "With priority {priority} and these settings it can't be interrupted, so it may not "
            "borrow: it asks for {asked} and the guarantee is {quota}. It would wait for ever. Set "
            "“May be interrupted” to yes, or ask for a larger guarantee."
        ),
        "borrower_stays_preemptible": _(
            "It holds {own}, and work of its project that can't be interrupted holds {protected} "
            "already, of a guarantee of {quota}. Leave “May be interrupted” at yes, or raise the "
            "guarantee."
        ),
        "limit_below_quota": _(
            "The limit {limit} is below the guarantee {quota}. Raise the limit or lower the "
            "guarantee."
        ),
        "quota_below_protected": _(
            "Work of {name} that can't be interrupted holds {protected} ({holders}). The guarantee "
            "can't go below that: stop some of it first."
        ),
        "bad_weight": _("A weight is a number from 0 to 1000, a rank one of the five."),
        "no_gpu_ever": _(
            "{name} is guaranteed nothing and may not borrow: no GPU work of it can ever run. Give "
            "it a guarantee, or let it borrow."
        ),
        "holds_above_limit": _(
            "{name} holds {held}, {over} above the new guarantee and more than the new limit. "
            "Nothing is stopped for that; nothing new starts until it holds less."
        ),
        "oversubscribed_pool": _(
            "The departments' guarantees add up to {promised} of {available}: not all can be kept "
            "at once."
        ),
        "oversubscribed_projects": _(
            "The projects' guarantees add up to {promised} of {available}: not all can be kept at "
            "once."
        ),
        "oversubscribed_department": _(
            "The projects' guarantees add up to {promised} of the department's {available}: not "
            "all can be kept at once."
        ),
        "bad_schedule_name": _("Give a name of 1 to 60 characters."),
        "schedule_name_taken": _(
            "There is already a scheduled change called {name}. Choose another name."
        ),
        "nothing_to_schedule": _("The draft changes nothing. Edit a row first."),
        "not_later": _("Choose a time that is still to come."),
        "bad_hour": _("Use times from 00:00 to 23:59."),
        "no_days": _("Choose at least one day of the week."),
        "many_holidays": _("Give at most 400 dates."),
        "always": _(
            "This window never ends. Save the values at once instead, or leave a time out."
        ),
        "schedules_overlap": _(
            "“{name}” and “{other}” would both set {unit} at the same time. Change the times of "
            "one, or leave the row out."
        ),
        "changed_meanwhile": _(
            "{who} has changed {name} since you read it. Look at the new values first."
        ),
        "no_idle_rule_for_inference": _(
            "Inference has no idle rule: a service that waits for requests is not idle by mistake. "
            "Let it scale to zero instead: minimum 0 and a retention time."
        ),
        "bad_limit": _("Use {least} seconds to one year, or leave it empty."),
        "looser_than_department": _(
            "The department allows {bound} s. A project may only tighten that."
        ),
        "nothing_to_keep": _("{name} has no idle rule or does not run."),
        "kept_already": _("It was kept less than 30 minutes ago. Use it, or wait."),
        "say_why": _("Say why it is declined, so that it can be asked for better."),
        "decided_already": _("The request for {name} has been decided already."),
        "has_rule": _("{name} has this role there already."),
        "last_admin": _("{name} is the last system admin. Make another one first."),
        "own_account": _("You can't end your own account. Ask another system admin."),
        "rule_scope": _("A rule has exactly one scope: the cluster, a department or a project."),
        "project_in_use": _(
            "{name} is in use: {n} of its workloads run or wait, holding {held}. Stop them first."
        ),
        "has_projects": _("{name} has projects ({projects}). Delete or move them first."),
    }.get(code, "")


def _places(params: Mapping[str, object]) -> dict[str, object]:
    amounts = (
        "asked", "quota", "own", "protected", "limit", "held", "over", "promised", "available"
    )  # fmt: skip
    return {
        name: format_gpu(value) if name in amounts and isinstance(value, int) else value
        for name, value in params.items()
    }
