"""``manage.py decide FILE_OR_DIR...``: decides scheduling cases. Needs no database and no Django."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from scheduler.core.case_files import CaseRefused, parse_case
from scheduler.core.cases import answer_case

USAGE = "usage: manage.py decide FILE_OR_DIR..."


def main(argv: Sequence[str]) -> int:
    """Print one JSON object a line for each case; return 2 where one could not be read."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE, file=sys.stderr if not argv else sys.stdout)
        return 0 if argv else 2
    status = 0
    for path in _case_files(argv):
        answer = _answer(path)
        if "error" in answer:
            status = 2
        print(json.dumps(answer, ensure_ascii=False), flush=True)
    return status


def _case_files(names: Sequence[str]) -> Iterator[Path]:
    """Yield the files named; of a directory every ``*.json`` below it, sorted by path."""
    for name in names:
        path = Path(name)
        if path.is_dir():
            yield from sorted(path.rglob("*.json"))
        else:
            yield path


def _answer(path: Path) -> dict[str, object]:
    name = path.stem
    started = time.perf_counter()
    try:
        case = parse_case(path.read_text(encoding="utf-8"), name=name)
        name = case.name
        answer = answer_case(case)
    except OSError as exc:
        return {"case": name, "error": f"file: can't be read: {exc.strerror}"}
    except UnicodeDecodeError:
        return {"case": name, "error": "file: is not UTF-8 text"}
    except CaseRefused as exc:
        return {"case": name, "error": str(exc)}
    answer["seconds"] = round(time.perf_counter() - started, 6)
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
