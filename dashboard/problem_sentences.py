"""What operations refuse: a sentence for each code, what is wrong and the way out.

Those about people, groups, tokens and accounts stand in ``people_words``.
"""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

#: Code to sentence where a role is not enough.
REFUSALS: dict[str, str | Promise] = {
    "demo_day_is_for_admins": _(
        "Only a platform administrator may start or stop the demonstration's day. Ask one."
    ),
    "alert_rules_are_for_admins": _("You may not set alert rules of {name}. Ask its admin."),
    "controls_are_for_admins": _(
        "Only a platform administrator may control the whole cluster. Ask one."
    ),
    "control_is_above_own": _("You may not do this to {name}. Ask the admin of its department."),
    "verify_is_for_admins": _("Only a platform administrator may run verifications. Ask one."),
    "rules_are_for_admins": _("You may not change the rules of {name}. Ask its admin."),
    "departments_are_for_admins": _(
        "Only a platform administrator may make, change and delete departments. Ask one."
    ),
    "projects_are_for_admins": _(
        "You may not make, change or delete projects in {department}. Ask its admin."
    ),
    "department_quota_is_for_admins": _(
        "You may not change the quota of {name}. Ask a platform administrator."
    ),
    "project_quota_is_for_admins": _(
        "You may not change the quota of {name}. Ask its department's admin."
    ),
    "months_are_for_admins": _("Only a platform administrator may close a month. Ask one."),
    "sharing_with_all_is_for_admins": _(
        "Only a platform administrator shares a report with everyone. Share it with those who see "
        "its units."
    ),
    "schedule_beyond_token": _(
        "This token sees only a part of what you see. Name departments or projects of its scope."
    ),
    "budgets_are_for_admins": _("You may not set the budget of {name}. Ask an admin."),
    "not_ones_request": _("Only who asked can withdraw a request."),
    "nodes_are_for_admins": _(
        "Only a platform administrator may change nodes, pools, prices and settings. Ask one."
    ),
    "serving_is_for_admins": _(
        "Your role may not act on inference services in {project}. Ask an admin of it for the "
        "right."
    ),
    "keys_are_for_admins": _(
        "Your role may not make or revoke gateway keys in {name}. Ask an admin of it."
    ),
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
    "assets_view_only": _(
        "Your role may not define or change assets of {scope}. Ask an admin of it."
    ),
    "paths_by_admin": _(
        "Paths of machines are offered by system admins, since other people's files lie there. "
        "Upload the files, or ask one."
    ),
    "keep_is_for_admins": _("The rule of {project} lets only its admins keep idle work."),
}

#: Code to sentence where a value or a state is in the way.
PROBLEMS: dict[str, str | Promise] = {
    "name_taken": _("{project} already has a workload called {name}. Choose another name."),
    "bad_name": _(
        "Use 1 to 63 small letters, digits and hyphens, beginning and ending with a letter or "
        "digit."
    ),
    "demo_day_running": _("The day is under way already. Stop it first."),
    "demo_day_not_running": _("The day is not under way."),
    "no_ranged_service": _(
        "No service here may have more replicas than it must. Lay out a demonstration, or give "
        "a service a range."
    ),
    "bad_fraction": _("Ask for a fraction from 0.001 to 0.999 of a GPU, or for whole GPUs."),
    "both_share_and_memory": _("Ask for a share of a GPU or for GPU memory, not for both."),
    "bad_count": _("Ask for 1 to 64 devices a replica."),
    "negative": _("Must not be negative."),
    "far_off": _("Give a date in the years {first} to {last}."),
    "bad_amount": _("Give an amount above 0, at most {most}."),
    "bad_month": _("Give a month such as 2026-11."),
    "month_closed": _("{month} or a later month is closed already."),
    "one_replica": _("It has one replica. Use a distributed training for more."),
    "bad_bounds": _("The minimum must not be above the maximum, and the maximum is 1 to 1024."),
    "verification_running": _("Another run is under way. Wait for its end, or cancel it."),
    "none_chosen": _("Choose at least one."),
    "no_such_layout": _("There is no {name} to run on. Choose one of these: {known}."),
    "no_such_verification": _("There is no verification {name}. Choose of these: {known}."),
    "run_has_ended": _("The run has ended already."),
    "bad_choice": _("There is no such kind, channel or time."),
    "bad_alert_name": _("Use 1 to 80 characters for the name."),
    "bad_metric": _("There is no such figure to watch."),
    "bad_duration": _("Use 0 seconds to 30 days."),
    "bad_threshold": _(
        "The threshold is out of the range of its figure: idle and limit are 0 to 100 %, all others "
        "are not negative."
    ),
    "budget_of_all_pools": _("A budget is for all node pools together. Choose all of them."),
    "bad_silence": _("Choose a time from now on, at most 30 days away."),
    "acknowledged_already": _("{who} looks after it already."),
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
        "The limit {limit} is below the guarantee {quota}. Raise the limit or lower the guarantee."
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
        "The projects' guarantees add up to {promised} of {available}: not all can be kept at once."
    ),
    "oversubscribed_department": _(
        "The projects' guarantees add up to {promised} of the department's {available}: not "
        "all can be kept at once."
    ),
    "file_too_large": _("The file is too large: at most 4 MB and 50,000 rows."),
    "not_csv": _("This is no CSV: {text}."),
    "not_yaml": _("This is no YAML: {text}."),
    "yaml_alias": _("Anchors and aliases are not taken. Write the values out."),
    "not_a_mapping": _("Names with values are expected here, such as “guarantee: 0.25”."),
    "not_a_list": _("A list is expected here: lines that begin with a hyphen."),
    "not_a_value": _("One value is expected here."),
    "wrong_cell_count": _("{n} cells stand here, and the first line names {wanted}."),
    "unknown_field": _("There is no field {name}."),
    "missing_field": _("The field {name} is missing."),
    "field_twice": _("The field {name} is there twice."),
    "row_twice": _("{name} was set in line {first} already."),
    "unit_twice": _("{name} is in the draft twice. Keep one row of it."),
    "row_view_only": _("You may only look at the quota of {name}. Leave the row as it is."),
    "unknown_pool": _("There is no node pool called {text}."),
    "unknown_department": _("There is no department called {text}."),
    "unknown_project": _("There is no project called {text} in that department."),
    "bad_gpus": _("“{text}” is not an amount of GPUs: use one with at most three places."),
    "bad_yes_no": _("“{text}” is neither yes nor no."),
    "bad_rank": _("“{text}” is no rank: high, medium-high, medium, medium-low or low."),
    "bad_file_weight": _("“{text}” is no weight: use a number from 0 to 1000."),
    "bad_cores": _("“{text}” is not a number of CPU cores with at most three places."),
    "bad_mib": _("“{text}” is not a whole number of MiB."),
    "nothing_to_replay": _("The draft changes nothing. Edit a row first."),
    "replay_at_work": _("Another replay of this pool is at work. Wait for it."),
    "bad_schedule_name": _("Give a name of 1 to 60 characters."),
    "schedule_name_taken": _(
        "There is already a scheduled change called {name}. Choose another name."
    ),
    "nothing_to_schedule": _("The draft changes nothing. Edit a row first."),
    "not_later": _("Choose a time that is still to come."),
    "bad_hour": _("Use times from 00:00 to 23:59."),
    "no_days": _("Choose at least one day of the week."),
    "many_holidays": _("Give at most 400 dates."),
    "always": _("This window never ends. Save the values at once instead, or leave a time out."),
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
    "empty": _("Say what to run, such as: python train.py"),
    "bad_character": _("Must not hold a zero byte."),
    "bad_env_name": _(
        "{name} can't be set: use letters, digits and underscores, and no name that begins "
        "with TIDEGATE_."
    ),
    "out_of_range": _("Use {low} to {high}."),
    "bad_path": _("Begin the path with a slash."),
    "too_long": _("Use at most {most} characters."),
    "asset_of_other_kind": _("Say {field}, and nothing of the other kinds of assets."),
    "no_mail": _("Your account has no address, or no mail server is set."),
    "asset_name_taken": _("There is one called {name} in this scope already. Choose another name."),
    "credential_needed": _(
        "Data sources are fetched with {name}: {sources}. Change or delete them first."
    ),
    "credential_gone": _(
        "It needs a credential of {name}, which was deleted. Submit it anew with another one."
    ),
    "no_such_credential": _("Choose a credential that holds wherever the data source does."),
    "no_such_asset": _(
        "Choose what may be used in the project: it is there no more, or is another's."
    ),
    "same_mount": _("Two data sources are called {name}: only one of them can lie there."),
    "variable_twice": _("{name} would be set twice. Choose one of the two."),
    "no_secret": _("Give at least one name and value, such as TOKEN=abc."),
    "bad_secret": _("A value must not be empty or hold a zero byte."),
    "no_files": _("Choose the files, or one archive of them."),
    "bad_files": _(
        "These files can't be kept: {why}. At most {mib} MiB and {files} files, or one archive "
        "of them."
    ),
    "bad_source_type": _("Choose where the data lie."),
    "bad_git_url": _(
        "Give the address of a repository that begins with https://, http://, ssh:// or git://."
    ),
    "secret_in_url": _(
        "Leave name and password out of the address: make a credential of them and choose it here."
    ),
    "bad_revision": _("Give a branch, a tag or a commit, or nothing."),
    "bad_endpoint": _("Give the service's address, such as https://s3.host."),
    "bad_bucket": _("Give the bucket's name: small letters, digits, hyphens and points."),
    "bad_prefix": _("Give a folder without a slash before it, or nothing."),
    "bad_server": _("Give the NFS server's name or address."),
    "bad_host_path": _("Give a whole path that begins with a slash, without dots that lead out."),
    "no_host_paths": _(
        "No folder of this machine is allowed: set TIDEGATE_HOST_PATHS to those that may be "
        "offered, and start Tidegate again."
    ),
    "own_files": _("Tidegate's own files lie there. Choose another folder."),
    "path_not_allowed": _("Choose a path below one of: {folders}."),
    "bad_working_dir": _(
        "Give a folder below the workload's own, such as code, without dots that lead out."
    ),
    "say_why": _("Say why it is declined, so that it can be asked for better."),
    "decided_already": _("The request for {name} has been decided already."),
    "key_revoked": _("The key is revoked. Make a new one."),
    "key_used": _("This key was used for another submission. Use a new one."),
    "is_there_already": _("{name} is there already. Choose another name."),
    "bad_unit_name": _("Give a name of 1 to 63 characters."),
    "bad_cluster_name": _("Give a name of 1 to 80 characters."),
    "bad_control": _("Use pause, freeze or hold."),
    "control_names_one": _(
        "Name one thing: a department, a project or a workload. Leave the others out."
    ),
    "hold_names_a_workload": _("A hold names one workload by its number; nothing else does."),
    "freeze_is_whole": _("A freeze holds in the whole cluster: leave the scope out."),
    "control_needs_reason": _("Say why, in 1 to {most} characters: everyone concerned reads it."),
    "bad_control_end": _("Let it end within {days} days: a whole number of minutes from now."),
    "control_has_ended": _("This control has ended already."),
    "nothing_to_hold": _("{name} has ended: there is nothing to hold."),
    "bad_kind": _("There is no such kind of rule."),
    "bad_color": _("Choose a color, 1 to {most}."),
    "no_scratch_pool": _("{name} is no scratch pool: real ones keep their hours."),
    "pool_runs_work": _("{name} still runs work. Stop it first."),
    "empty_template": _("Say what is to be submitted."),
    "bad_zone": _("Not a time zone: use a name such as Asia/Taipei."),
    "bad_permille": _("Use 0 to 1000 thousandths."),
    "too_short": _("Use at least 5 seconds."),
    "too_small": _("Ask for at least 1 MiB."),
    "metric_needed": _(
        "Say what another replica depends on: concurrency, throughput, latency or a number of "
        "its own."
    ),
    "metric_without_zero": _(
        "A service that scales by {metric} can't go to zero: at zero there is nothing to "
        "measure. Take a minimum of 1, or concurrency or throughput."
    ),
    "bad_gauge": _(
        "Give the name of the gauge on the replicas' metrics page, such as queue_length."
    ),
    "bad_model_name": _(
        "“{name}” is no model name: use letters, digits and . _ : / @ -, at most 200, beginning "
        "with a letter or digit."
    ),
    "bad_deadline": _("Choose a time in the next 30 days, or none."),
    "drained_already": _("{name} is being emptied already."),
    "not_drained": _("{name} is not being emptied."),
    "metric_name": _(
        "A metric's name has 1 to 64 letters, digits, dots, dashes, slashes and underscores, and begins "
        "with a letter or digit."
    ),
    "not_finite": _("A metric must be a finite number."),
    "too_many_metrics": _("A workload may report {most} different metrics."),
    "past": _("Choose an end in the future."),
    "one_scope": _("Choose a project or a department for the key, one of the two."),
    "has_ended": _("{name} has already ended."),
    "has_not_ended": _("{name} has not ended yet."),
    "has_rule": _("{name} has this role there already."),
    "last_admin": _("{name} is the last system admin. Make another one first."),
    "own_account": _("You can't end your own account. Ask another system admin."),
    "rule_scope": _("A rule has exactly one scope: the cluster, a department or a project."),
    "project_in_use": _(
        "{name} is in use: {n} of its workloads run or wait, holding {held}. Stop them first."
    ),
    "has_projects": _("{name} has projects ({projects}). Delete or move them first."),
}
