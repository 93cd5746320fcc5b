"""Runs one verification on a running product with the rule switched off that it verifies.

``python -m tests.verify.switched_off NUMBER`` with the product's environment prints the result as
JSON. This is for tests alone: the command has no such flag.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import Any

import django

from scheduler.core.units import UNLIMITED_MGPU
from scheduler.operations.demonstration_data import Unit


def without_department_limit(unit: Unit) -> Unit:
    """Nothing keeps dev-test from the rest of the card."""
    return replace(unit, limit_mgpu=UNLIMITED_MGPU) if unit.name == "dev-test" else unit


def nothing_is_borrowed(unit: Unit) -> Unit:
    """Unit-a's guarantee covers all that it runs, so there is nothing to take back."""
    return replace(unit, quota_mgpu=360) if unit.name == "unit-a" else unit


def limit_above_quota(unit: Unit) -> Unit:
    """The project may borrow, so its service finds room without taking any."""
    if unit.name != "closed":
        return unit
    return replace(unit, over_quota=True, limit_mgpu=UNLIMITED_MGPU)


def nothing_defends(unit: Unit) -> Unit:
    """Production is guaranteed nothing and development has no limit: none of the defences is there."""
    quota_mgpu = 0 if unit.name.startswith("prod") else unit.quota_mgpu
    return replace(unit, quota_mgpu=quota_mgpu, limit_mgpu=UNLIMITED_MGPU)


def as_it_is(unit: Unit) -> Unit:
    """The rule is no queue's: ``PATCHES`` switches it off."""
    return unit


def sees_the_department() -> None:
    """The researcher's role is over the whole department instead of one project."""
    from scheduler import models
    from scheduler.management.verify import pages

    real = pages.signed_in_as

    def wider(*, url: str, name: str, rules: Any) -> Any:
        if "project_id" not in rules[0]:  # the reader of the scratch pool
            return real(url=url, name=name, rules=rules)
        project = models.Project.objects.get(pk=rules[0]["project_id"])
        rule = {"role": rules[0]["role"], "department_id": project.department_id}
        return real(url=url, name=name, rules=[rule])

    pages.signed_in_as = wider


def no_idle_rules() -> None:
    """Nobody sets a rule for any kind of work."""
    from scheduler.core.idle import RuleKind
    from scheduler.management.verify import v_idle

    real = v_idle._set_rule

    def only_refused(stage: Any, kind: str) -> None:
        if kind not in list(RuleKind):
            real(stage, kind)

    v_idle._set_rule = only_refused


EDITS = {
    "3": without_department_limit,
    "4": without_department_limit,
    "5": nothing_is_borrowed,
    "6": limit_above_quota,
    "1": as_it_is,
    "idle": as_it_is,
    "guard": nothing_defends,
    "8": nothing_is_borrowed,
}
PATCHES = {"1": sees_the_department, "idle": no_idle_rules}


def main(number: str) -> None:
    """Run it and print what became of it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from scheduler.management.verify import layout, registry, stage

    if number in PATCHES:
        PATCHES[number]()
    with registry.alone():
        result = registry.run_one(
            number=number,
            url=stage.find_address(),
            layout=layout.CARD,
            on_check=lambda check: None,
            edit=EDITS[number],
            patience_s=15,
        )
    print(json.dumps({**asdict(result), "passed": result.passed}))


if __name__ == "__main__":
    main(sys.argv[1])
