"""The whole product as a fixture: `up` in a temporary data folder, on free ports."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from psycopg import sql

from dashboard.launch.processes import Identity
from dashboard.management import own_product

ROOT = Path(__file__).resolve().parent.parent
START_S = 120
PASSWORD = "a password for tests"


def wait_until(is_so: Callable[[], object], *, within_s: float, what: str):
    """Wait for something to come about; return it, or fail saying ``what`` did not."""
    deadline = time.monotonic() + within_s
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.1)


@dataclass
class Product:
    """A running `up`, as an operator sees it from outside."""

    data: Path
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen | None = None
    address: str = ""
    admin_password: str = PASSWORD

    # --- Start and end ---------------------------------------------------------------------------

    def start(self, *, port: int = 0) -> Product:
        """Start it and wait for the line that says ready."""
        self.launch(port=port)
        wait_until(self._is_ready, within_s=START_S, what=f"ready\n{self.output()}")
        return self

    def launch(self, *, port: int = 0) -> None:
        self.process = own_product.launch_up(self.data, flags=self.flags, port=port, env=self.env())

    def interrupt(self, *, within_s: float = 40) -> int:
        """Press Ctrl-C and wait for the end; return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=within_s)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            try:
                self.interrupt()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # Work outlives the product on purpose; it ends when its directory is gone from its place.
        shutil.rmtree(self.data / "workloads", ignore_errors=True)

    # --- What it says ----------------------------------------------------------------------------

    def output(self) -> str:
        """Return what `up` has printed so far."""
        return own_product.output_of(self.data)

    def log(self, name: str) -> str:
        """Return the log of redis, web, worker or beat."""
        return (self.data / "logs" / f"{name}.log").read_text(errors="replace")

    def children(self) -> dict[str, Identity]:
        """Return the product's processes by name."""
        return own_product.children_of(self.data)

    def kill(self, name: str) -> Identity:
        """End one process outright, as the machine would; return who it was."""
        victim = self.children()[name]
        os.kill(victim.pid, signal.SIGKILL)
        return victim

    # --- Ways in ---------------------------------------------------------------------------------

    @property
    def database_url(self) -> str:
        given = self.environment.get("DATABASE_URL", os.environ.get("DATABASE_URL", ""))
        return given or f"sqlite:///{self.data / 'tidegate.sqlite3'}"

    @property
    def redis_url(self) -> str:
        return (self.data / "redis.url").read_text().strip()

    def env(self) -> dict[str, str]:
        """Return the environment in which this installation's commands run."""
        own = {"TIDEGATE_DATA": str(self.data), "TIDEGATE_ADMIN_PASSWORD": self.admin_password}
        kept = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
        return {**kept, **own, **self.environment}

    def manage(self, *argv: str, within_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command of manage.py on this installation."""
        return own_product.run_manage(*argv, env=self.env(), within_s=within_s)

    @contextmanager
    def signed_in(self, *, username: str = "admin", password: str = ""):
        """Give an HTTP client with a session, which sends the token that posts need."""
        with httpx.Client(base_url=self.address, timeout=20) as client:
            path = _login_path()
            client.get(path).raise_for_status()
            token = client.cookies["tidegate_csrf"]
            form = {"username": username, "password": password or self.admin_password}
            answer = client.post(path, data={**form, "csrfmiddlewaretoken": token})
            assert answer.status_code == 302, f"sign-in refused: {answer.status_code}"
            client.headers["X-CSRFToken"] = client.cookies["tidegate_csrf"]
            yield client

    def _is_ready(self) -> bool:
        assert self.process is not None
        self.address = own_product.address_told(self.data)
        if self.address:
            return True
        assert self.process.poll() is None, f"up ended before it was ready:\n{self.output()}"
        return False


def make_database(name: str) -> str:
    """Make a database of its own on the run's PostgreSQL and return its URL."""
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def _login_path() -> str:
    from django.conf import settings
    from django.shortcuts import resolve_url

    return resolve_url(settings.LOGIN_URL)


@pytest.fixture(scope="session")
def prepared_data(tmp_path_factory):
    """A data folder whose tables and pages' files are made, without a row: others start as its copies."""
    product = Product(data=tmp_path_factory.mktemp("prepared"))
    product.environment["DATABASE_URL"] = ""
    done = product.manage("prepare")
    assert done.returncode == 0, done.stderr
    # Where nobody is, the next start fills the tables, with a demonstration too.
    with closing(sqlite3.connect(product.data / "tidegate.sqlite3")) as database, database:
        database.execute("DELETE FROM access_user")
        database.execute("DELETE FROM sqlite_sequence WHERE name = 'access_user'")
    return product.data


@pytest.fixture(scope="session")
def make_product(tmp_path_factory, prepared_data):
    """Return a maker of installations that are ended with the session; flags as for `up`.

    Each begins as a copy of tables that are made, so that it is there sooner, unless it is to be ``new``.
    """
    made: list[Product] = []

    def make(*flags: str, new: bool = False, **environment: str) -> Product:
        data = tmp_path_factory.mktemp("product") / "data"
        if new:
            data.mkdir()
        else:
            shutil.copytree(prepared_data, data)
        if os.environ.get("DATABASE_URL"):
            environment["DATABASE_URL"] = make_database(f"product_{os.getpid()}_{len(made)}")
        product = Product(data=data, flags=flags, environment=environment)
        made.append(product)
        return product

    yield make
    for product in made:
        product.close()


@pytest.fixture(scope="session")
def product(make_product: Callable[..., Product]) -> Product:
    """The product with its first demonstration, one for the whole session: leave it as it was."""
    return make_product("--demo", "card").start()


@pytest.fixture(scope="module")
def empty_product(make_product):
    """A product without a demonstration, for this module alone."""
    product = make_product("--empty").start()
    yield product
    product.close()
