"""Runs one verification on a running product with the rule switched off that it verifies.

``python -m tests.verify.switched_off NUMBER`` with the product's environment prints the result as
JSON. This is for tests alone: the command has no such flag.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace

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


EDITS = {
    "3": without_department_limit,
    "4": without_department_limit,
    "5": nothing_is_borrowed,
    "6": limit_above_quota,
}


def main(number: str) -> None:
    """Run it and print what became of it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from scheduler.management.verify import layout, registry, stage

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
