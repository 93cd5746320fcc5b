"""The quota tree as a file, CSV or YAML: written whole, and read back line by line with its mistakes.

Amounts are GPUs with at most three places, CPU is cores, memory is MiB; an empty limit, and an empty
amount of CPU or memory, is none. A field that a line leaves out keeps its value.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import yaml

from scheduler.core.snapshot import UNLIMITED, QueueQuota
from scheduler.core.units import UNLIMITED_MGPU, AmountRefused, format_gpu, parse_gpu
from scheduler.core.vocabulary import Level, Rank
from scheduler.queries.csv_text import guard, unguard
from scheduler.queries.quota_tree import QuotaRow, QuotaTree

FORMATS = ("csv", "yaml")
#: Of one file. A tree of ten thousand projects is far below it.
MOST_BYTES = 4_000_000
MOST_LINES = 50_000
NAMES = ("pool", "department", "project")
RANKS = {int(rank): rank.name.lower().replace("_", "-") for rank in Rank}
#: Field of the file to column of the core's values.
COLUMNS = {
    "guarantee": "quota_mgpu",
    "limit": "limit_mgpu",
    "over_quota": "over_quota",
    "rank": "rank",
    "weight": "weight_milli",
    "cpu_guarantee": "cpu_quota_milli",
    "cpu_limit": "cpu_limit_milli",
    "memory_guarantee_mib": "memory_quota_mib",
    "memory_limit_mib": "memory_limit_mib",
}
HEADER = (*NAMES, *COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """What can't be read, and where. ``line`` counts from 1; ``code`` is stable."""

    line: int
    field: str
    code: str
    params: Mapping[str, object] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    """One department or project of a file, its fields as text. No project: the department's own row."""

    line: int
    pool: str
    department: str
    project: str
    cells: Mapping[str, str]


class FileRefused(Exception):
    """The file as a whole can't be read."""

    def __init__(self, mistake: Mistake) -> None:
        super().__init__(f"line {mistake.line}: {mistake.code}")
        self.mistake = mistake


# --- Writing --------------------------------------------------------------------------------------


def write_file(trees: Iterable[QuotaTree], *, ending: str) -> str:
    """Return the rows that are known of these trees as a file of that format."""
    return _write_csv(trees) if ending == "csv" else _write_yaml(trees)


def cells_of(quota: QueueQuota) -> dict[str, str]:
    """Return a row's values as the text of each field."""
    return {name: _text(column, getattr(quota, column)) for name, column in COLUMNS.items()}


def _write_csv(trees: Iterable[QuotaTree]) -> str:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\r\n")
    writer.writerow(HEADER)
    for tree in trees:
        for department, row in _rows(tree):
            project = "" if row.level is Level.DEPARTMENT else row.name
            names = [guard(tree.pool.name), guard(department.name), guard(project)]
            writer.writerow([*names, *cells_of(row.quota).values()])
    return target.getvalue()


def _write_yaml(trees: Iterable[QuotaTree]) -> str:
    pools: dict[str, list[dict[str, object]]] = {}
    for tree in trees:
        departments: list[dict[str, object]] = pools.setdefault(tree.pool.name, [])
        for department, row in _rows(tree):
            if not departments or departments[-1]["department"] != department.name:
                departments.append({"department": department.name})
            if row.level is Level.DEPARTMENT:
                departments[-1].update(cells_of(row.quota))
                continue
            projects = departments[-1].setdefault("projects", [])
            assert isinstance(projects, list)
            projects.append({"project": row.name, **cells_of(row.quota)})
    return yaml.safe_dump({"pools": pools}, allow_unicode=True, sort_keys=False)


def _rows(tree: QuotaTree) -> Iterator[tuple[QuotaRow, QuotaRow]]:
    """Yield each row that is known with its department."""
    departments = {row.id: row for row in tree.rows if row.level is Level.DEPARTMENT}
    for row in tree.rows:
        if row.known:
            yield departments[row.department_id], row


def _weight_text(milli: int) -> str:
    return f"{Decimal(milli) / 1000:f}".rstrip("0").rstrip(".") or "0"


def _milli_text(milli: int) -> str:
    return "" if milli >= UNLIMITED else f"{Decimal(milli) / 1000:f}"


def _text(column: str, value: int) -> str:
    match column:
        case "quota_mgpu":
            return format_gpu(value)
        case "limit_mgpu":
            return "" if value >= UNLIMITED_MGPU else format_gpu(value)
        case "over_quota":
            return "yes" if value else "no"
        case "rank":
            return RANKS[value]
        case "weight_milli":
            return _weight_text(value)
        case "cpu_quota_milli" | "cpu_limit_milli":
            return _milli_text(value)
        case _:
            return _mib_text(value)


def _mib_text(value: int) -> str:
    return "" if value >= UNLIMITED else str(value)


# --- Reading --------------------------------------------------------------------------------------


def read_file(text: str, *, ending: str) -> tuple[list[FileLine], list[Mistake]]:
    """Return the lines of a file and what can't be read of it.

    Raises:
        FileRefused: it is too large, or no file of that format at all.
    """
    if len(text) > MOST_BYTES:
        raise FileRefused(Mistake(line=1, field="", code="file_too_large"))
    lines, mistakes = _read_csv(text) if ending == "csv" else _read_yaml(text)
    if len(lines) > MOST_LINES:
        raise FileRefused(Mistake(line=MOST_LINES + 1, field="", code="file_too_large"))
    return lines, mistakes


def parse_cells(line: FileLine, current: QueueQuota) -> tuple[QueueQuota, list[Mistake]]:
    """Return a row's values with what a line says of them, and what of it is no value."""
    found: dict[str, object] = {}
    mistakes = []
    for name, text in line.cells.items():
        try:
            found[COLUMNS[name]] = _VALUES[COLUMNS[name]](text.strip())
        except (AmountRefused, InvalidOperation, ValueError, KeyError):
            mistakes.append(
                Mistake(line=line.line, field=name, code=_CODES[name], params={"text": text[:40]})
            )
    values = {column: getattr(current, column) for column in COLUMNS.values()} | found
    return QueueQuota(**values), mistakes


def _read_csv(text: str) -> tuple[list[FileLine], list[Mistake]]:
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), strict=True)
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        mistakes = _header_mistakes(header)
        if mistakes:
            return [], mistakes
        lines = []
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                counts = {"n": len(cells), "wanted": len(header)}
                code = "wrong_cell_count"
                mistakes.append(Mistake(line=reader.line_num, field="", code=code, params=counts))
                continue
            lines.append(_line(reader.line_num, dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        params = {"text": str(error)}
        raise FileRefused(
            Mistake(line=reader.line_num, field="", code="not_csv", params=params)
        ) from error
    return lines, mistakes


def _header_mistakes(header: Sequence[str]) -> list[Mistake]:
    mistakes = [
        Mistake(line=1, field=name, code="unknown_field", params={"name": name, "near": HEADER})
        for name in header
        if name not in HEADER
    ]
    mistakes += [
        Mistake(line=1, field=name, code="missing_field", params={"name": name})
        for name in NAMES
        if name not in header
    ]
    twice = {name for name in header if header.count(name) > 1}
    mistakes += [
        Mistake(line=1, field=name, code="field_twice", params={"name": name})
        for name in sorted(twice)
    ]
    return mistakes


def _line(number: int, cells: Mapping[str, str]) -> FileLine:
    names = {name: unguard(cells.get(name, "").strip()) for name in NAMES}
    return FileLine(
        line=number,
        cells={name: text for name, text in cells.items() if name in COLUMNS},
        **names,
    )


def _read_yaml(text: str) -> tuple[list[FileLine], list[Mistake]]:
    try:
        for token in yaml.scan(text):
            if isinstance(token, yaml.AliasToken):
                raise FileRefused(
                    Mistake(line=token.start_mark.line + 1, field="", code="yaml_alias")
                )
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise FileRefused(
            Mistake(
                line=mark.line + 1 if mark else 1,
                field="",
                code="not_yaml",
                params={"text": str(getattr(error, "problem", "") or "")},
            )
        ) from error
    except RecursionError as error:
        raise FileRefused(Mistake(line=1, field="", code="not_yaml")) from error
    reader = _YamlReader()
    reader.read(root)
    return reader.lines, reader.mistakes


class _YamlReader:
    """Walks the nodes, which know their lines: pools, in each departments, in each projects."""

    def __init__(self) -> None:
        self.lines: list[FileLine] = []
        self.mistakes: list[Mistake] = []

    def read(self, root: yaml.Node | None) -> None:
        """Read a document: one mapping with ``pools``."""
        for name, node in self._pairs(root, allowed=("pools",)):
            if name != "pools":
                continue
            for pool, departments in self._pairs(node):
                for department in self._items(departments):
                    self._department(pool, department)

    def _department(self, pool: str, node: yaml.Node) -> None:
        pairs = dict(self._pairs(node, allowed=("department", "projects", *COLUMNS)))
        name = self._scalar(pairs.pop("department", None), node, "department")
        projects = pairs.pop("projects", None)
        self._add(node, pool, name, "", pairs)
        for each in self._items(projects) if projects is not None else ():
            own = dict(self._pairs(each, allowed=("project", *COLUMNS)))
            project = self._scalar(own.pop("project", None), each, "project")
            self._add(each, pool, name, project, own)

    def _add(
        self,
        node: yaml.Node,
        pool: str,
        department: str,
        project: str,
        pairs: Mapping[str, yaml.Node],
    ) -> None:
        cells = {name: self._scalar(value, node, name) for name, value in pairs.items()}
        self.lines.append(
            FileLine(
                line=_line_of(node), pool=pool, department=department, project=project, cells=cells
            )
        )

    def _pairs(
        self, node: yaml.Node | None, allowed: Sequence[str] | None = None
    ) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            self._note(node, "", "not_a_mapping")
            return
        seen = set()
        for key, value in node.value:
            name = str(getattr(key, "value", ""))
            if allowed is not None and name not in allowed:
                self._note(key, name, "unknown_field", name=name[:40], near=tuple(allowed))
            elif name in seen:
                self._note(key, name, "field_twice", name=name)
            else:
                seen.add(name)
                yield name, value

    def _items(self, node: yaml.Node) -> Iterable[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            return list(node.value)
        self._note(node, "", "not_a_list")
        return []

    def _scalar(self, node: yaml.Node | None, parent: yaml.Node, name: str) -> str:
        if node is None:
            self._note(parent, name, "missing_field", name=name)
            return ""
        if not isinstance(node, yaml.ScalarNode):
            self._note(node, name, "not_a_value", name=name)
            return ""
        is_null = node.tag == "tag:yaml.org,2002:null"
        return "" if is_null else str(node.value)

    def _note(self, node: yaml.Node | None, place: str, code: str, **params: object) -> None:
        line = 1 if node is None else _line_of(node)
        self.mistakes.append(Mistake(line=line, field=place, code=code, params=params))


def _line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _limit(text: str) -> int:
    return parse_gpu(text, field="limit") if text else UNLIMITED_MGPU


def _yes(text: str) -> bool:
    return {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}[
        text.lower()
    ]


def _rank(text: str) -> int:
    name = text.lower().replace(" ", "-").replace("_", "-")
    return {word: rank for rank, word in RANKS.items()}[name]


def _milli(text: str) -> int:
    scaled = Decimal(text) * 1000
    if not scaled.is_finite() or scaled != scaled.to_integral_value() or scaled < 0:
        raise ValueError(text)
    return int(scaled)


def _milli_or_none(text: str) -> int:
    return min(_milli(text), UNLIMITED) if text else UNLIMITED


def _mib_or_none(text: str) -> int:
    if not text:
        return UNLIMITED
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ValueError(text)
    return int(text)


_VALUES = {
    "quota_mgpu": lambda text: parse_gpu(text, field="guarantee"),
    "limit_mgpu": _limit,
    "over_quota": _yes,
    "rank": _rank,
    "weight_milli": _milli,
    "cpu_quota_milli": _milli_or_none,
    "cpu_limit_milli": _milli_or_none,
    "memory_quota_mib": _mib_or_none,
    "memory_limit_mib": _mib_or_none,
}
_CODES = {
    "guarantee": "bad_gpus",
    "limit": "bad_gpus",
    "over_quota": "bad_yes_no",
    "rank": "bad_rank",
    "weight": "bad_file_weight",
    "cpu_guarantee": "bad_cores",
    "cpu_limit": "bad_cores",
    "memory_guarantee_mib": "bad_mib",
    "memory_limit_mib": "bad_mib",
}
