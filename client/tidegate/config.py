"""Where the address and the token are kept: a file that only its owner may read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Config:
    """One server and the token for it; empty where nobody has signed in."""

    url: str = ""
    token: str = ""


def path() -> Path:
    """Return the file's place: under XDG_CONFIG_HOME, or ~/.config."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "tidegate" / "client.json"


def read() -> Config:
    """Return what is kept; TIDEGATE_URL and TIDEGATE_TOKEN win over it."""
    kept: dict[str, str] = {}
    try:
        kept = json.loads(path().read_text())
    except FileNotFoundError:
        pass
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path()} can't be read: {error}. Sign in again: tidegate login"
        ) from error
    return Config(
        url=os.environ.get("TIDEGATE_URL") or kept.get("url", ""),
        token=os.environ.get("TIDEGATE_TOKEN") or kept.get("token", ""),
    )


def write(config: Config) -> Path:
    """Keep it, readable by its owner only from the first byte on."""
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(asdict(config), out)
    new.replace(file)
    return file
