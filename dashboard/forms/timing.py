"""When a draft of quotas takes effect: now, at a time, or in a window of each week."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard import words
from scheduler.core.calendar import Weekly, instant_us
from scheduler.core.instants import FIRST_YEAR, LAST_YEAR, from_us
from scheduler.operations.quota_schedules import NAME_LENGTH, Timing
from scheduler.queries.quota_schedules import Scheduled

NOW, AT, WEEKLY = "now", "at", "weekly"
WHEN = [
    (NOW, gettext_lazy("now")),
    (AT, gettext_lazy("at a time")),
    (WEEKLY, gettext_lazy("on a schedule")),
]


class TimingForm(forms.Form):
    """Only the fields of what is chosen are asked for. Times are of the cluster's zone."""

    when = forms.ChoiceField(choices=WHEN, required=False)
    name = forms.CharField(max_length=NAME_LENGTH, required=False)
    at = forms.CharField(required=False, max_length=40)
    days = forms.TypedMultipleChoiceField(
        choices=[(number, str(number)) for number in range(7)], coerce=int, required=False
    )
    begins = forms.TimeField(required=False, input_formats=["%H:%M"])
    ends = forms.TimeField(required=False, input_formats=["%H:%M"])
    holidays = forms.CharField(required=False, max_length=6000)

    def __init__(self, *args: Any, zone: ZoneInfo, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.zone = zone

    @property
    def chosen(self) -> str:
        """Return what is chosen, as the form was sent."""
        if not self.is_bound:
            return str(self.initial.get("when", NOW))
        found = str(self.data.get("when", NOW))
        return found if found in {NOW, AT, WEEKLY} else NOW

    def clean_at(self) -> datetime | None:
        """Return the instant: what was typed is a clock of the cluster's zone, read as windows are."""
        text = self.cleaned_data["at"].strip()
        if not text:
            return None
        try:
            typed = datetime.fromisoformat(text)
        except ValueError as error:
            said = _("Not a time: use one such as 2026-12-01 18:00.")
            raise forms.ValidationError(said) from error
        if typed.tzinfo is not None or not FIRST_YEAR <= typed.year <= LAST_YEAR:
            raise forms.ValidationError(_("Not a time: use one such as 2026-12-01 18:00."))
        minute = 60 * typed.hour + typed.minute
        return from_us(instant_us(day=typed.date(), minute=minute, zone=self.zone))

    def clean_holidays(self) -> frozenset[date]:
        """Return the dates, which may stand in lines or with commas."""
        found = set()
        for text in self.cleaned_data["holidays"].replace(",", " ").split():
            try:
                found.add(date.fromisoformat(text))
            except ValueError as error:
                said = _("{text} is not a date such as 2026-12-25.").format(text=text[:20])
                raise forms.ValidationError(said) from error
        return frozenset(found)

    def clean(self) -> dict[str, Any]:
        """Ask for what the choice needs."""
        data = super().clean() or self.cleaned_data
        if self.chosen == NOW:
            return data
        if not data.get("name"):
            self.add_error("name", _("Give it a name, so that others know what it is."))
        if self.chosen == AT and "at" not in self.errors and data.get("at") is None:
            self.add_error("at", _("Choose a time."))
        if self.chosen == WEEKLY:
            for field in ("begins", "ends"):
                if field not in self.errors and data.get(field) is None:
                    self.add_error(field, _("Choose a time."))
            if not data.get("days"):
                self.add_error("days", _("Choose at least one day of the week."))
        return data

    def timing(self) -> Timing:
        """Return what a valid form asks for."""
        data = self.cleaned_data
        if self.chosen == AT:
            return Timing(at=data["at"])
        return Timing(
            weekly=Weekly(
                days=frozenset(data["days"]),
                from_minute=_minute(data["begins"]),
                to_minute=_minute(data["ends"]),
                holidays=data["holidays"],
            )
        )

    @property
    def day_choices(self) -> list[tuple[int, str, bool]]:
        """Return each day with its word and whether it is ticked."""
        sent = self.data.getlist("days") if hasattr(self.data, "getlist") else ()
        ticked = {str(each) for each in (sent if self.is_bound else self.initial.get("days", ()))}
        return [(day, words.day_name(day), str(day) in ticked) for day in range(7)]

    @staticmethod
    def initial_of(scheduled: Scheduled, zone: ZoneInfo) -> dict[str, object]:
        """Return the fields of a schedule that is to be edited."""
        if scheduled.at is not None:
            at = f"{scheduled.at.astimezone(zone):%Y-%m-%dT%H:%M}"
            return {"when": AT, "name": scheduled.name, "at": at}
        assert scheduled.weekly is not None
        weekly = scheduled.weekly
        return {
            "when": WEEKLY,
            "name": scheduled.name,
            "days": sorted(weekly.days),
            "begins": words.clock_of(weekly.from_minute),
            "ends": words.clock_of(weekly.to_minute),
            "holidays": " ".join(sorted(day.isoformat() for day in weekly.holidays)),
        }


def _minute(clock: time) -> int:
    return 60 * clock.hour + clock.minute
