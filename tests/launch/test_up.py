"""`up` as an operator meets it: first start, second start, deaths of every kind, and the end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from tests.product import PASSWORD, ROOT, Product, wait_until

pytestmark = pytest.mark.product

SHOWN = re.compile(r"password (\S+) \(shown only this once\)")


def answers(product):
    try:
        return httpx.get(f"{product.address}/healthz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def groups_alive(leaders):
    """Return the names of those whose process group still has a member."""
    return [name for name, leader in leaders.items() if leader.has_group()]


@pytest.fixture
def fresh(make_product):
    product = make_product("--empty", TIDEGATE_SILENCE_S="6")
    yield product
    product.close()


# --- First and second start -----------------------------------------------------------------------


def test_the_first_start_makes_an_administrator_whose_password_is_shown_once(make_product):
    # Given a new data folder, and nobody who names a password
    fresh = make_product("--empty", new=True, TIDEGATE_ADMIN_PASSWORD="")
    # When the product starts
    fresh.start()
    # Then a password is shown that lets one in,
    shown = wait_until(lambda: SHOWN.search(fresh.output()), within_s=5, what="a password")
    with fresh.signed_in(password=shown[1]) as client:
        assert client.get("/").status_code == 200
    # it is kept nowhere in clear,
    fresh.interrupt()
    files = [file for file in fresh.data.rglob("*") if file.is_file() and file.name != "up.out"]
    assert [file for file in files if shown[1].encode() in file.read_bytes()] == []
    # and the next start makes no other one
    fresh.start()
    assert SHOWN.search(fresh.output()) is None
    fresh.close()


def test_a_second_up_finds_the_first_and_says_so(empty_product):
    before = empty_product.children()

    second = empty_product.manage("up", "--no-browser", "--data", str(empty_product.data))

    assert second.returncode == 0
    assert f"already running at {empty_product.address}" in second.stdout
    assert empty_product.children() == before
    assert answers(empty_product)


def test_a_port_in_use_is_said_and_the_next_one_taken(fresh):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        fresh.start(port=port)

        assert f"port {port} is in use" in fresh.output()
        assert fresh.address != f"http://127.0.0.1:{port}"
        assert answers(fresh)


def test_private_files_are_closed_to_others(empty_product):
    for name in ("secret.key", "redis.url", "redis/redis.conf"):
        assert (empty_product.data / name).stat().st_mode & 0o077 == 0, name


# --- Deaths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["worker", "beat", "web", "redis"])
def test_a_process_that_is_killed_comes_back_and_is_reported(empty_product, name):
    # Given the running product
    before = empty_product.children()
    # When one of its processes is killed outright
    victim = empty_product.kill(name)
    # Then another takes its place, the others stay, and the log says so
    wait_until(lambda: empty_product.children().get(name, victim) != victim, within_s=30, what=name)
    wait_until(lambda: answers(empty_product), within_s=30, what="the pages answer")
    after = empty_product.children()
    assert {one for one in before if before[one] != after[one]} == {name}
    assert f"{name} ended (signal SIGKILL)" in empty_product.output()
    assert not victim.has_group()


def test_a_worker_that_turned_deaf_is_noticed_and_replaced(fresh):
    # Given a worker that is there and does nothing any more
    fresh.start()
    deaf = fresh.children()["worker"]
    os.kill(deaf.pid, signal.SIGSTOP)
    # When the scheduler has been silent for long enough
    said = "worker is restarted: the scheduler has not ticked"
    wait_until(lambda: said in fresh.output(), within_s=60, what="the silence is noticed")
    # Then another worker takes over and the deaf one is gone
    wait_until(lambda: fresh.children().get("worker", deaf) != deaf, within_s=30, what="a new one")
    assert not deaf.is_alive()


@pytest.mark.parametrize("hangs", [False, True], ids=["plain", "with a worker that hangs"])
def test_a_killed_supervisor_leaves_nothing_that_the_next_up_does_not_clear(fresh, hangs):
    # Given the running product, whose supervisor is then killed outright
    fresh.start()
    orphans = fresh.children()
    if hangs:
        os.kill(orphans["worker"].pid, signal.SIGSTOP)
    fresh.process.kill()
    fresh.process.wait()
    # When it is started again at once
    fresh.start()
    # Then it runs, and of the former processes there is none left
    assert answers(fresh)
    assert groups_alive(orphans) == []
    assert not any(orphans[name] == now for name, now in fresh.children().items())


def test_what_cannot_start_is_said_with_its_last_words(fresh):
    # Given settings with which no server can start
    fresh.environment["TIDEGATE_TICK_S"] = "often"
    # When the product is started
    fresh.launch()
    # Then it ends, names the mistake, and leaves nothing running
    assert fresh.process.wait(timeout=60) == 1
    assert "TIDEGATE_TICK_S is 'often'" in fresh.output()
    assert not (fresh.data / "run" / "up.json").exists()


# --- The end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_the_end_leaves_no_process_and_no_open_port(fresh, number):
    fresh.start()
    children = fresh.children()

    fresh.process.send_signal(number)

    assert fresh.process.wait(timeout=40) == 0
    assert groups_alive(children) == []
    assert not answers(fresh)
    assert not (fresh.data / "run" / "up.json").exists()


def test_it_runs_from_another_folder_and_with_spaces_in_paths(tmp_path):
    product = Product(data=tmp_path / "a folder with spaces" / "data")

    argv = [sys.executable, str(ROOT / "manage.py"), "prepare"]
    environment = {**product.env(), "TIDEGATE_ADMIN_PASSWORD": PASSWORD}
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert '"admin_made": true' in done.stdout
