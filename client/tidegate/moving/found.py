"""What a file of another system turned into: submissions, quota rows, and what could not be carried over."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class ImportRefused(Exception):
    """The file can't be carried over. ``line`` counts from 1; 0: the file as a whole."""

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One field of the file: what it says, and what it becomes or why it is left out."""

    field: str
    value: str
    #: Of a submission's field or a file's column; empty: left out.
    becomes: str = ""
    why: str = ""


@dataclass(slots=True, kw_only=True)
class Found:
    """All that was found in one file. Either submissions or units, not both."""

    system: str
    submissions: list[Json] = field(default_factory=list)
    #: Rows of a quota file: department, project (empty: the department's own), columns as text.
    units: list[dict[str, str]] = field(default_factory=list)
    carried: list[Note] = field(default_factory=list)
    left_out: list[Note] = field(default_factory=list)

    def carry(self, name: str, value: object, becomes: str) -> None:
        """Note a field that is carried over."""
        self.carried.append(Note(field=name, value=short(value), becomes=becomes))

    def leave(self, name: str, value: object, why: str) -> None:
        """Note a field that is left out."""
        self.left_out.append(Note(field=name, value=short(value), why=why))

    def as_json(self) -> Json:
        """Return the report for programs."""
        return {
            "system": self.system,
            "submissions": self.submissions,
            "units": self.units,
            "carried": [_told(each) for each in self.carried],
            "left_out": [_told(each) for each in self.left_out],
        }


def _told(note: Note) -> Json:
    told = {"field": note.field, "value": note.value, "becomes": note.becomes, "why": note.why}
    return {name: value for name, value in told.items() if value}


def short(value: object) -> str:
    """Return a value as a report shows it."""
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def work_name(text: str, found: Found, *, of: str) -> str:
    """Return a name as workloads have them; a changed one is noted."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].strip("-")
    if not _NAME.fullmatch(name):
        raise ImportRefused(f"{of}: no letter or digit of {text!r} can be part of a name.")
    found.carry(of, text, f"name: {name}")
    return name


_SUFFIXES = {
    "": 0, "k": 1, "ki": 1, "m": 2, "mi": 2, "g": 3, "gi": 3, "t": 4, "ti": 4, "p": 5, "pi": 5,
}  # fmt: skip


def mebibytes(text: str, *, of: str, default: str = "", line: int = 0) -> int:
    """Return an amount of memory such as 16G, 512Mi or 1.5Ti in whole MiB, never less than asked.

    Slurm's suffixes and Kubernetes' binary ones are powers of 1024; Kubernetes' decimal ones (``M``)
    are taken as powers of 1024 too, which is up to 10 % more. ``default``: the suffix where there is
    none.

    Raises:
        ImportRefused: it is no amount of memory.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-zA-Z]*)", text.strip())
    suffix = (match[2] or default).lower().removesuffix("b") if match else "?"
    if match is None or suffix not in _SUFFIXES:
        raise ImportRefused(f"{of}: {text!r} is no amount of memory such as 16G.", line=line)
    whole, _dot, part = match[1].partition(".")
    power = 1 << (10 * _SUFFIXES[suffix])
    scaled = int(whole + part) * power
    unit: int = 1024**2 * 10 ** len(part)
    return -(-scaled // unit)


def thousandths(text: str, *, of: str, line: int = 0) -> int:
    """Return a decimal such as 0.5 in thousandths, and 500m as it stands.

    Raises:
        ImportRefused: it is no amount, negative, or finer than a thousandth.
    """
    text = text.strip()
    if re.fullmatch(r"\d{1,9}m", text):
        return int(text[:-1])
    match = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,3})0*)?", text)
    if match is None:
        raise ImportRefused(
            f"{of}: {text!r} is no amount with at most three places such as 0.5.", line=line
        )
    return int(match[1]) * 1000 + int((match[2] or "").ljust(3, "0"))


def gpus(mgpu: int) -> str:
    """Return thousandths of a GPU as a quota file writes them."""
    return f"{mgpu // 1000}.{mgpu % 1000:03d}".rstrip("0").rstrip(".")
