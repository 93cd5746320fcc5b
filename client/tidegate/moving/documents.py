"""YAML documents of Kubernetes: read safely, each with the line where it begins; values at a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from tidegate.moving.found import ImportRefused, Json

MOST_DOCUMENTS = 500
MOST_CHARACTERS = 4_000_000


def read_documents(text: str) -> list[Json]:
    """Return the objects of a file; a ``List`` gives its items.

    Raises:
        ImportRefused: it is no YAML, or holds something that is no object.
    """
    if len(text) > MOST_CHARACTERS:
        raise ImportRefused("The file is larger than 4 MB.")
    try:
        if any(isinstance(each, yaml.AliasEvent) for each in yaml.parse(text, yaml.SafeLoader)):
            raise ImportRefused("Aliases (*name) are not read: write the values out.")
        found = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = str(getattr(error, "problem", None) or "it can't be read")
        raise ImportRefused(
            f"This is no YAML: {said}.", line=mark.line + 1 if mark else 0
        ) from error
    except RecursionError as error:
        raise ImportRefused("This YAML is nested too deeply.") from error
    objects: list[Json] = []
    for each in found:
        items = (
            each.get("items") if isinstance(each, dict) and each.get("kind") == "List" else [each]
        )
        for item in items if isinstance(items, list) else [items]:
            if not isinstance(item, dict):
                raise ImportRefused("Each document is an object with apiVersion and kind.")
            objects.append(item)
    if not 1 <= len(objects) <= MOST_DOCUMENTS:
        raise ImportRefused(f"A file holds 1 to {MOST_DOCUMENTS} objects.")
    return objects


def kind_of(thing: Mapping[str, Any]) -> tuple[str, str]:
    """Return the group of its apiVersion ("" for the core's) and its kind."""
    version = str(thing.get("apiVersion", ""))
    return version.rpartition("/")[0], str(thing.get("kind", ""))


def at(thing: Any, *path: str) -> Any:
    """Return the value at a path of keys, None where there is none."""
    for key in path:
        if not isinstance(thing, Mapping):
            return None
        thing = thing.get(key)
    return thing


def mapping(thing: Any, of: str) -> Json:
    """Return an object; empty where there is none.

    Raises:
        ImportRefused: it is something else.
    """
    if thing is None:
        return {}
    if not isinstance(thing, dict):
        raise ImportRefused(f"{of} is no object.")
    return thing


def items(thing: Any, of: str) -> list[Any]:
    """Return a list; empty where there is none.

    Raises:
        ImportRefused: it is something else.
    """
    if thing is None:
        return []
    if not isinstance(thing, list):
        raise ImportRefused(f"{of} is no list.")
    return thing


def whole(thing: Any, of: str, *, low: int = 0, high: int = 1_000_000) -> int:
    """Return a whole number.

    Raises:
        ImportRefused: it is something else, or out of range.
    """
    if isinstance(thing, str) and thing.isascii() and thing.isdigit() and len(thing) < 10:
        thing = int(thing)
    if isinstance(thing, bool) or not isinstance(thing, int) or not low <= thing <= high:
        raise ImportRefused(f"{of}: {thing!r} is no whole number from {low} to {high}.")
    return thing


def name_of(thing: Mapping[str, Any]) -> str:
    """Return what an object is called.

    Raises:
        ImportRefused: it has no name.
    """
    name = at(thing, "metadata", "name") or at(thing, "metadata", "generateName")
    if not isinstance(name, str) or not name.strip("-"):
        raise ImportRefused(f"A {kind_of(thing)[1] or 'document'} has no metadata.name.")
    return name.strip("-")
