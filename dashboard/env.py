"""Typed reads of the environment and of what the data folder keeps; only settings.py calls it."""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

SQLITE_OPTIONS: dict[str, object] = {
    # Immediate: a transaction that reads first and writes later would fail at once with
    # "database is locked" in WAL mode, whatever the timeout.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA mmap_size=134217728; "
        "PRAGMA journal_size_limit=67108864; PRAGMA cache_size=-20000;"
    ),
}


class MissingSetting(Exception):
    """A setting without a safe default was not given."""

    def __init__(self, name: str) -> None:
        super().__init__(f"set the environment variable {name}")


class InvalidSetting(Exception):
    """A setting was given in a form that cannot be read."""

    def __init__(self, name: str, value: str, wanted: str) -> None:
        super().__init__(f"{name} is {value!r}; it must be {wanted}")


def text(name: str, *, default: str | None = None) -> str:
    """Return the variable, or ``default`` where it is unset or empty."""
    value = os.environ.get(name, "").strip()
    if value:
        return value
    if default is None:
        raise MissingSetting(name)
    return default


def integer(name: str, *, default: int, least: int = 0) -> int:
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    if not value.isascii() or not value.isdigit() or int(value) < least:
        raise InvalidSetting(name, value, f"a whole number of at least {least}")
    return int(value)


def boolean(name: str, *, default: bool) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise InvalidSetting(name, value, "one of 1, 0, true, false, yes, no, on, off")


def words(name: str, *, default: tuple[str, ...] = ()) -> list[str]:
    """Return a comma-separated list without empty parts."""
    value = os.environ.get(name, "")
    return [part.strip() for part in value.split(",") if part.strip()] or list(default)


def networks(name: str) -> list[str]:
    """Return networks that are separated by commas, such as ``10.0.0.0/8``."""
    found = words(name)
    for one in found:
        try:
            ipaddress.ip_network(one)
        except ValueError as error:
            raise InvalidSetting(name, one, "networks such as 10.0.0.0/8") from error
    return found


def folder(name: str, *, default: Path) -> Path:
    """Return an absolute folder, made where it is missing, closed to other users."""
    path = Path(text(name, default=str(default))).expanduser().absolute()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def secret_kept_in(path: Path) -> str:
    """Return the secret in ``path``, made there once; of several makers at once one wins."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(48))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process made it meanwhile; both read that one
        finally:
            draft.unlink()
    secret = path.read_text(encoding="ascii").strip()
    if len(secret) < 32:
        raise InvalidSetting(str(path), "(its content)", "a secret of at least 32 characters")
    return secret


def address_kept_in(path: Path, *, default: str) -> str:
    """Return the address that ``up`` left in ``path``, or ``default`` where there is none."""
    if not path.exists():
        return default
    return path.read_text(encoding="utf-8").strip() or default


def database(name: str, *, default_file: Path, test_file: Path) -> dict[str, object]:
    """Return Django's DATABASES entry for the URL in ``name``; SQLite in a file without one."""
    value = text(name, default="")
    if not value:
        return _sqlite(default_file, test_file)
    url = urlsplit(value)
    if url.scheme == "sqlite":
        return _sqlite(Path(unquote(url.path[1:])), test_file)
    if url.scheme not in {"postgres", "postgresql"}:
        shown = f"{url.scheme}://..."
        raise InvalidSetting(name, shown, "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME")
    options = dict(parse_qsl(url.query))
    host = options.pop("host", None) or unquote(url.hostname or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(url.path[1:]),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": host,
        "PORT": str(url.port or ""),
        "OPTIONS": options,
        "TEST": {"NAME": f"test_{unquote(url.path[1:])}_{os.getpid()}"},
    }


def _sqlite(file: Path, test_file: Path) -> dict[str, object]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(file.expanduser().absolute()),
        "OPTIONS": dict(SQLITE_OPTIONS),
        "TEST": {"NAME": str(test_file)},
    }
