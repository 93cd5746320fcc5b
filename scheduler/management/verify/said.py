"""What verifications say, kept as sentence and places, so that it can be read in either language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Said(str):
    """A sentence: text in English, and what it was made of."""

    template: str
    places: Mapping[str, object]

    def __deepcopy__(self, _memo: object) -> Said:
        return self


def say(template: str, **places: object) -> Said:
    """Return ``template`` with its places filled. Both ends of a comparison may be said or plain."""
    said = Said(template.format(**places))
    said.template = template
    said.places = places
    return said


def to_json(text: object) -> Any:
    """Return what is kept: a plain text as it is, a sentence with its places."""
    if isinstance(text, Said):
        return {"t": text.template, "p": {k: to_json(v) for k, v in text.places.items()}}
    return str(text)
