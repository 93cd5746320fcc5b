"""Reference pages that are made from the code when the documentation is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.utils import timezone, translation

from access.roles import MAY_GRANT, PERMISSIONS, Role
from dashboard import people_words, problem_sentences
from dashboard.api.app import api
from scheduler.core.alerts import Metric
from scheduler.core.notices import DEFAULTS, KIND_OF
from scheduler.queries import glossary
from scheduler.queries.alert_words import metric_name

Row = Sequence[object]
METHODS = ("get", "post", "put", "patch", "delete")
#: What stands in every made page: where it comes from.
MADE = "*This page is made from the code when the documentation is built.*"


def pages() -> Mapping[str, Callable[[], str]]:
    """Return the made pages: the path below the documentation, and who writes each."""
    return {
        "reference/endpoints.md": endpoints,
        "reference/command-line.md": command_line,
        "reference/reasons.md": reasons,
        "reference/events.md": events,
        "reference/refusals.md": refusals,
        "reference/roles.md": roles,
    }


def write(path: str) -> str:
    """Return one made page, in English and UTC whatever the reader's settings are."""
    with translation.override("en"), timezone.override("UTC"):
        return pages()[path]()


def endpoints() -> str:
    """Return every endpoint of the REST API with its parameters, body and answer."""
    document = api.get_openapi_schema()
    groups: dict[str, list[str]] = {}
    for path, methods in sorted(document["paths"].items()):
        group = path.removeprefix("/api/v1/").split("/")[0]
        for method in METHODS:
            if method in methods:
                groups.setdefault(group, []).append(_endpoint(path, method, methods[method]))
    intro = (
        "Every endpoint of `/api/v1`, with what it takes and gives. Conventions, signing in and refusals are "
        "in [The REST API](../api.md). Your installation has the same list with a form for each at "
        "`/api/v1/reference`."
    )
    parts = [f"# Endpoints\n\n{intro}\n\n{MADE}"]
    parts += [f"## {name}\n\n" + "\n\n".join(found) for name, found in sorted(groups.items())]
    return "\n\n".join(parts) + "\n"


def _endpoint(path: str, method: str, found: Mapping[str, Any]) -> str:
    said = (str(found.get(name) or "").strip() for name in ("summary", "description"))
    about = " ".join(text if text.endswith(".") else f"{text}." for text in said if text)
    lines = [f"### `{method.upper()} {path}`", "", about]
    for each in found.get("parameters", ()):
        told = each.get("description") or each.get("schema", {}).get("description") or ""
        must = ", must be given" if each.get("required") else ""
        kind = _type_of(each.get("schema", {}))
        lines.append(f"* `{each['name']}` ({each['in']}, {kind}{must}) {told}".rstrip())
    body = found.get("requestBody", {}).get("content", {})
    for kind, content in body.items():
        lines.append(f"* body: {_type_of(content.get('schema', {}))} as `{kind}`")
    good = [
        f"{status} {_answer_of(answer)}".strip()
        for status, answer in found.get("responses", {}).items()
        if str(status).startswith("2")
    ]
    lines.append(f"* answers: {', '.join(good)}")
    # A list needs an empty line before it.
    return "\n".join([*lines[:3], "", *lines[3:]])


def _answer_of(answer: Mapping[str, Any]) -> str:
    for content in answer.get("content", {}).values():
        return _type_of(content.get("schema", {}))
    return ""


def _type_of(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[-1]}`"
    if "anyOf" in schema:
        return " or ".join(_type_of(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{each}`" for each in schema["enum"])
    return str(schema.get("type") or "any")


def command_line() -> str:
    """Return every command of ``tidegate`` with its help, as the command itself prints it."""
    from tidegate.help_text import all_help

    intro = (
        "Every command of `tidegate` with its options, as `-h` prints them. What they are for, and the exit "
        "codes: [The command line and the Python client](../client.md)."
    )
    parts = [f"# Commands of tidegate\n\n{intro}\n\n{MADE}"]
    for name, text in all_help():
        parts.append(f"## `{name}`\n\n```text\n{text.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def reasons() -> str:
    """Return every reason to wait, with its sentences by example."""
    rows = [(f"`{each.code}`", each.why, each.runs_when) for each in glossary.list_reasons()]
    return _page(
        "Reasons to wait",
        "Every code that can stand behind the sentence that says why work waits, with an example of both "
        "sentences. When each is given, and the ways out: [The rules](../rules.md#why-something-waits).",
        ("code", "what is said", "the way out"),
        rows,
    )


def events() -> str:
    """Return the events of a timeline, the verbs of decisions, notices, and what alerts watch."""
    parts = [
        "# Events, decisions, notices\n\nWhat a workload's timeline, the decisions and the notices can say. "
        f"Figures and names are examples.\n\n{MADE}",
        "## Events of a workload\n\n"
        + _table(
            ("code", "what is said"),
            ((f"`{each.code}`", each.text) for each in glossary.list_events()),
        ),
        "## Verbs of decisions\n\n"
        + _table(
            ("code", "word"), ((f"`{each.code}`", each.text) for each in glossary.list_verbs())
        ),
        "## Notices\n\nWhere each kind goes is everyone's own choice ([Notices](../notifications.md)).\n\n"
        + _table(
            ("code", "kind", "goes to, unless one chooses"),
            (
                (f"`{code}`", kind.value, ", ".join(DEFAULTS[kind]) or "nowhere")
                for code, kind in KIND_OF.items()
            ),
        ),
        "## What alert rules watch\n\nSee [Alerts](../alerts.md).\n\n"
        + _table(
            ("code", "figure"), ((f"`{each.value}`", metric_name(each.value)) for each in Metric)
        ),
    ]
    return "\n\n".join(parts) + "\n"


def refusals() -> str:
    """Return every code of a refusal with its sentence."""
    parts = [
        "# Codes of refusals\n\nThe API answers a refusal with a code that stays and a sentence in the "
        f"reader's language ([The REST API](../api.md#conventions)). Words in braces are filled in.\n\n{MADE}"
    ]
    for title, found in (
        ("A role is not enough (403)", {**problem_sentences.REFUSALS, **people_words.REFUSALS}),
        (
            "Something in the request is wrong (409, 422)",
            {**problem_sentences.PROBLEMS, **people_words.PROBLEMS},
        ),
    ):
        rows = [(f"`{code}`", f"{text}") for code, text in sorted(found.items())]
        parts.append(f"## {title}\n\n" + _table(("code", "sentence"), rows))
    return "\n\n".join(parts) + "\n"


def roles() -> str:
    """Return what each role may do, and which roles its holder may give."""
    rows = [
        (
            f"`{role.value}`",
            ", ".join(f"`{each.value}`" for each in sorted(PERMISSIONS[role])) or "look",
            ", ".join(f"`{each.value}`" for each in sorted(MAY_GRANT[role])) or "none",
        )
        for role in Role
    ]
    return _page(
        "Roles",
        "What each role may do inside its scope; to look comes with any role. See [Access](../access.md).",
        ("role", "may", "may give"),
        rows,
    )


def _page(title: str, intro: str, head: Row, rows: Iterable[Row]) -> str:
    return f"# {title}\n\n{intro}\n\n{MADE}\n\n{_table(head, rows)}\n"


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [_line(head), "|" + "---|" * len(head)]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(cells: Row) -> str:
    texts = [str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells]
    return "| " + " | ".join(texts) + " |"
