"""Celery tasks of reports."""

from __future__ import annotations

import logging

from celery import shared_task
from django.conf import settings
from django.core.mail import EmailMessage
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from access import listing
from access.models import User
from access.scopes import authority_of
from reports import money, numbers, saved
from reports.refused import ReportRefused
from scheduler.core.vocabulary import Level
from scheduler.operations import money as operations
from scheduler.operations.authority import Action
from scheduler.operations.money import WARN_AT
from scheduler.queries import saved_reports, usage_names
from scheduler.queries.saved_reports import Schedule
from scheduler.queries.visibility import WHOLE_CLUSTER

log = logging.getLogger(__name__)


@shared_task(name="reports.tasks.make_due_reports", ignore_result=True)
def make_due_reports() -> None:
    """Make the scheduled reports whose time has come, each with what its owner may see now."""
    now = timezone.now()
    for due in saved_reports.list_due(now=now):
        owner = User.objects.filter(username=due.owner, is_active=True).first()
        if owner is None:
            log.warning("reports.schedule.owner_gone", extra={"schedule_id": due.id})
            continue
        authority = authority_of(user=owner, door="schedule")
        with translation.override(due.language):
            try:
                report_id = saved.make_scheduled(
                    visible=authority.visible, authority=authority, due=due, now=now
                )
            except ReportRefused as refused:
                log.warning(
                    "reports.schedule.refused", extra={"schedule_id": due.id, "why": str(refused)}
                )
                continue
            if report_id is not None and due.mail_to and settings.EMAIL_HOST:
                mail(due=due, report_id=report_id)


@shared_task(name="reports.tasks.watch_budgets", ignore_result=True)
def watch_budgets() -> None:
    """Work out what is spent of each budget; at 50, 80 and 100 % tell those who may change the guarantee."""
    now = timezone.now()
    currency = usage_names.read_cluster_facts().currency
    for line in money.budget_lines(visible=WHOLE_CLUSTER, now=now):
        percent, permille = line.spent_percent, line.spent_permille
        if permille is not None:
            operations.note_spent(budget_id=line.unit.id, permille=permille, now=now)
        passed = [at for at in WARN_AT if percent is not None and percent >= at]
        if not passed:
            continue
        unit = line.unit
        is_department = unit.level is Level.DEPARTMENT
        operations.warn(
            budget_id=unit.id,
            month=line.month,
            percent=passed[-1],
            told={
                "project": unit.name,
                "month": line.month,
                "cost": f"{currency}{numbers.shown_money(line.cost)}",
                "budget": f"{currency}{unit.monthly:,}",
            },
            usernames=listing.names_who_may(
                action=Action.DEPARTMENT_QUOTA if is_department else Action.PROJECT_QUOTA,
                project_id=0 if is_department else unit.unit_id,
                department_id=unit.unit_id if is_department else unit.department_id,
            ),
            now=now,
        )


def mail(*, due: Schedule, report_id: int) -> None:
    """Send a report as CSV to whom its schedule names."""
    found = saved_reports.read_saved(report_id=report_id, reader=due.owner)
    assert found is not None
    message = EmailMessage(
        subject=_("Consumption: {name}").format(name=due.name),
        body=_("{name}, {begin} to {end} ({zone}). The figures are in the attached file.").format(
            name=due.name,
            begin=saved.told_time(found.content, found.content["period_start"]),
            end=saved.told_time(found.content, found.content["period_end"]),
            zone=found.content["zone"],
        ),
        to=[due.mail_to],
    )
    message.attach(found.content["file"], b"".join(saved.saved_csv(saved=found)), "text/csv")
    message.send()
