"""The record of one verification: given, when, expected, seen, where it was read, pass or fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was expected and what was seen instead, or the same."""

    given: str
    when: str
    expected: str
    seen: str
    where: str
    passed: bool


@dataclass(slots=True, kw_only=True)
class Sheet:
    """Collects the checks of one verification; whoever asked for it hears of each at once."""

    on_check: Callable[[Check], None] = lambda check: None
    on_given: Callable[[str], None] = lambda text: None
    on_when: Callable[[str], None] = lambda text: None
    checks: list[Check] = field(default_factory=list)
    _given: str = ""
    _when: str = ""

    def given(self, text: str) -> None:
        """Say what is so before. Holds for all checks until it is said anew."""
        self._given = text
        self._when = ""
        self.on_given(text)

    def when(self, text: str) -> None:
        """Say what is done. Holds for all checks until it is said anew."""
        self._when = text
        self.on_when(text)

    def check(self, *, expected: str, seen: str, where: str, passed: bool | None = None) -> bool:
        """Note a check and return whether it passed: where ``passed`` is not said, if both are equal."""
        found = Check(
            given=self._given,
            when=self._when,
            expected=expected,
            seen=seen,
            where=where,
            passed=expected == seen if passed is None else passed,
        )
        self.checks.append(found)
        self.on_check(found)
        return found.passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one verification. ``trouble``: why it could not be carried out to its end."""

    number: str
    title: str
    checks: tuple[Check, ...]
    took_s: float
    trouble: str = ""

    @property
    def passed(self) -> bool:
        """Test whether it was carried out to its end and every check passed."""
        return not self.trouble and bool(self.checks) and all(c.passed for c in self.checks)
