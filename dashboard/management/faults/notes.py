"""What the work of a fault run noted by itself, read back."""

from __future__ import annotations

import fcntl
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One line: on which work (name and rank), on a clock that counts from boot."""

    work: str
    at: float
    what: str
    replica: str
    step: int


def read_notes(folder: Path) -> dict[str, list[Note]]:
    """Return the notes by work, in the order of time."""
    found: dict[str, list[Note]] = defaultdict(list)
    for file in sorted(folder.glob("*.notes")):
        work = file.name.rsplit(".", 2)[0]
        for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # killed while it wrote
            told = json.loads(line)
            note = Note(
                work=work,
                at=told["at"],
                what=told["what"],
                replica=told["replica"],
                step=told.get("step", 0),
            )
            found[work].append(note)
    return {work: sorted(notes, key=lambda note: note.at) for work, notes in found.items()}


def is_running(folder: Path, work: str) -> bool:
    """Test whether a process of this work holds its lock."""
    file = folder / f"{work}.lock"
    if not file.exists():
        return False
    with open(file, "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def double_runs(notes: Mapping[str, list[Note]]) -> Iterator[str]:
    """Yield what ran twice at once, and each start of a replica that came twice."""
    starts: dict[tuple[str, str], int] = defaultdict(int)
    for work, told in notes.items():
        for note in told:
            if note.what == "double":
                yield f"{work}: replica {note.replica} began while another of it ran"
            if note.what in ("begins", "double"):
                starts[(work, note.replica)] += 1
    for (work, replica), count in sorted(starts.items()):
        if count > 1:
            yield f"{work}: the start {replica} came {count} times"


def lost_steps(notes: Mapping[str, list[Note]]) -> Iterator[str]:
    """Yield what resumed from less than it had saved."""
    for work, told in notes.items():
        saved = 0
        for note in told:
            if note.what == "saved":
                saved = max(saved, note.step)
            if note.what == "resumes" and note.step < saved:
                yield f"{work}: replica {note.replica} resumed from {note.step} of {saved} saved"
