"""The launcher's parts, each by itself."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from dashboard import env
from dashboard.addresses import allowed_hosts
from dashboard.launch import install, options, ports, resp, tail
from dashboard.launch.processes import Identity, start_of
from dashboard.launch.redis import plan_redis
from dashboard.launch.screen import Screen, StepFailed
from dashboard.launch.state import RunState
from dashboard.launch.watch import TickWatch

ROOT = Path(__file__).resolve().parent.parent.parent


# --- Only the standard library --------------------------------------------------------------------


def test_the_launcher_imports_nothing_but_the_standard_library():
    # Given a Python that knows of no installed package
    program = (
        "import sys, dashboard.launch.up, dashboard.launch.testing, dashboard.launch.lock, manage;"
        "print(*sorted({name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names))"
    )
    argv = [sys.executable, "-S", "-E", "-c", program]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    # Then what it takes to start the product is ours alone
    assert done.stderr == ""
    assert done.stdout.split() == ["__main__", "dashboard", "manage"]


# --- Options --------------------------------------------------------------------------------------


@pytest.fixture
def bare_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)
    return monkeypatch


def test_flags_have_safe_defaults(bare_environment):
    asked = options.parse([])

    assert (asked.host, asked.port, asked.demo) == ("127.0.0.1", 8000, "card")
    assert asked.data == ROOT / "var"
    assert (asked.is_empty, asked.opens_browser) == (False, True)


def test_each_flag_has_a_twin_in_the_environment(bare_environment, tmp_path):
    given = {
        "TIDEGATE_EMPTY": "1",
        "TIDEGATE_DEMO": "racks",
        "TIDEGATE_HOST": "0.0.0.0",
        "TIDEGATE_PORT": "9000",
        "TIDEGATE_DATA": str(tmp_path),
        "TIDEGATE_NO_BROWSER": "true",
    }
    for name, value in given.items():
        bare_environment.setenv(name, value)

    from_environment = options.parse([])

    flags = ["--empty", "--demo", "racks", "--host", "0.0.0.0", "--port", "9000", "--no-browser"]
    assert from_environment == options.parse([*flags, "--data", str(tmp_path)])


def test_a_flag_wins_over_its_twin(bare_environment):
    bare_environment.setenv("TIDEGATE_PORT", "9000")

    assert options.parse(["--port", "9001"]).port == 9001


@pytest.mark.parametrize(
    ("name", "value"),
    [("TIDEGATE_PORT", "many"), ("TIDEGATE_PORT", "70000"), ("TIDEGATE_DEMO", "x")],
)
def test_what_cannot_be_meant_is_refused(bare_environment, capsys, name, value):
    bare_environment.setenv(name, value)

    with pytest.raises(SystemExit):
        options.parse([])
    assert name in capsys.readouterr().err


# --- Ports ----------------------------------------------------------------------------------------


def test_the_next_free_port_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        assert ports.free_port(host="127.0.0.1", wanted=port) > port


def test_a_free_port_is_taken_as_asked():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    assert ports.free_port(host="127.0.0.1", wanted=port) == port


# --- Redis ----------------------------------------------------------------------------------------


def test_a_redis_of_ones_own_needs_its_password(settings):
    stranger = settings.REDIS_URL.replace(settings.REDIS_URL.split("@")[0], "redis://:wrong")

    assert resp.ping(settings.REDIS_URL)
    assert not resp.ping(stranger)


def test_numbers_are_read_and_what_is_no_number_is_none(settings):
    resp.ask(settings.REDIS_URL, "SET", "launch:number", "1785")
    resp.ask(settings.REDIS_URL, "SET", "launch:word", "soon")

    read = [
        resp.get_integer(settings.REDIS_URL, f"launch:{key}") for key in ("number", "word", "no")
    ]

    assert read == [1785, None, None]


def test_a_given_redis_is_used_and_none_started(tmp_path, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://:secret@example.test:6380/2")

    plan = plan_redis(data=tmp_path)

    assert plan.argv == ()
    assert plan.url == "redis://:secret@example.test:6380/2"
    assert "secret" not in plan.origin
    assert not (tmp_path / "redis.url").exists()


def test_silence_is_told_from_a_redis_that_is_away(settings):
    # Given a Redis that nobody listens at
    with socket.create_server(("127.0.0.1", 0)) as probe:
        nobody = f"redis://127.0.0.1:{probe.getsockname()[1]}/0"
    away = TickWatch(url=nobody, key="launch:tick")
    # And one that answers, with a scheduler that has said nothing since long
    silent = TickWatch(url=settings.REDIS_URL, key="launch:tick")
    for watch in (away, silent):
        watch._heard_at -= 1000

    assert away.find_silence() == ""
    assert "has not ticked" in silent.find_silence()


# --- Processes ------------------------------------------------------------------------------------


def test_a_process_is_known_by_pid_and_start_never_by_pid_alone():
    me = Identity(pid=os.getpid(), started=start_of(os.getpid()))
    former_bearer = Identity(pid=os.getpid(), started="another boot:1")

    assert me.is_alive()
    assert not former_bearer.is_alive()
    assert not former_bearer.has_group()


def test_a_process_that_has_ended_is_not_alive():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    who = Identity(pid=process.pid, started=start_of(process.pid))
    assert who.is_alive()

    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert not who.is_alive()


def test_a_state_file_cut_off_by_a_full_disk_names_nobody(tmp_path):
    state = RunState(data=tmp_path)
    (tmp_path / "run" / "up.json").write_text('{"pid": 12, "child')

    assert state.read_leftovers() == []


# --- The short log --------------------------------------------------------------------------------


LINES = [
    (
        "a warning is shown",
        {"level": "warning", "event": "x", "logger": "celery"},
        "worker: warning x",
    ),
    (
        "news of our own are shown with their facts",
        {"level": "info", "event": "workload.started", "logger": "scheduler.tick", "name": "a"},
        "worker: workload.started name=a",
    ),
    (
        "a sentence for people is shown as it is",
        {"level": "info", "event": "decision", "logger": "dashboard.news", "said": "Place: a"},
        "Place: a",
    ),
    (
        "the tick's own line is not",
        {"level": "info", "event": "tick.done", "logger": "scheduler"},
        "",
    ),
    ("nor is other people's news", {"level": "info", "event": "hello", "logger": "celery"}, ""),
]


@pytest.mark.parametrize(("what", "record", "shown"), LINES)
def test_a_log_line_is_shortened(what, record, shown):
    assert tail.shorten(json.dumps(record), source="worker") == shown, what


def test_lines_of_other_shapes_are_not_shown():
    assert tail.shorten("Traceback (most recent call last):", source="web") == ""
    assert tail.shorten("[1, 2]", source="web") == ""


def test_a_log_that_grew_too_large_is_cut_and_one_former_part_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tail, "LARGEST_LOG_BYTES", 1000)
    follower = tail.LogFollower(folder=tmp_path, names=("worker",))
    log = tmp_path / "worker.log"
    with open(log, "ab") as output:  # as the process has it open all the while
        output.write(b"x" * 2000 + b"\n")
        output.flush()
        follower.read_new()
        output.write(
            json.dumps({"level": "error", "event": "after", "logger": "a"}).encode() + b"\n"
        )
        output.flush()

        assert follower.read_new() == ["worker: error after"]
    assert (tmp_path / "worker.log.1").stat().st_size == 2001
    assert log.stat().st_size < 1000


# --- The environment ------------------------------------------------------------------------------


def _make_secret(path):
    return env.secret_kept_in(path)


def test_of_many_who_make_the_secret_at_once_all_read_the_same(tmp_path):
    path = tmp_path / "secret.key"

    with ProcessPoolExecutor(max_workers=4) as pool:
        made = set(pool.map(_make_secret, [path] * 16))

    assert len(made) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]
    assert path.stat().st_mode & 0o777 == 0o600


DATABASES = [
    ("", "django.db.backends.sqlite3", "default.sqlite3", ""),
    ("sqlite:////srv/a.sqlite3", "django.db.backends.sqlite3", "/srv/a.sqlite3", ""),
    ("postgresql://me:a%40b@db:5433/tide", "django.db.backends.postgresql", "tide", "db"),
    ("postgres://me@/tide?host=%2Frun%2Fpg", "django.db.backends.postgresql", "tide", "/run/pg"),
]


@pytest.mark.parametrize(("url", "engine", "name", "host"), DATABASES)
def test_database_urls(monkeypatch, tmp_path, url, engine, name, host):
    monkeypatch.setenv("DATABASE_URL", url)

    read = env.database(
        "DATABASE_URL", default_file=tmp_path / "default.sqlite3", test_file=tmp_path / "t"
    )

    assert read["ENGINE"] == engine
    assert str(read["NAME"]).endswith(name)
    assert read.get("HOST", "") == host


def test_a_database_url_that_cannot_be_read_is_refused_without_its_password(monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", "mysql://me:secret@db/tide")

    with pytest.raises(env.InvalidSetting) as refused:
        env.database("DATABASE_URL", default_file=tmp_path, test_file=tmp_path)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "٣"])
def test_a_number_that_is_none_is_refused(monkeypatch, value):
    monkeypatch.setenv("TIDEGATE_TICK_S", value)

    with pytest.raises(env.InvalidSetting, match="TIDEGATE_TICK_S"):
        env.integer("TIDEGATE_TICK_S", default=1)


def test_a_server_bound_everywhere_answers_to_its_own_names():
    assert socket.gethostname() in allowed_hosts(bound_to="0.0.0.0")
    assert "*" not in allowed_hosts(bound_to="0.0.0.0")
    assert allowed_hosts(bound_to="127.0.0.1") == ["localhost", "127.0.0.1", "[::1]"]


# --- Set-up ---------------------------------------------------------------------------------------


def test_a_lock_that_changed_is_missing_again(monkeypatch, tmp_path):
    # Given an environment that holds the base set
    monkeypatch.setattr(install, "home", lambda: tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    install._write_stamp({"base": install._hash_of("base")})
    assert install._missing(["base"]) == []
    # When another lock comes with a new version
    changed = tmp_path / "requirements.lock"
    changed.write_text("django==99\n")
    monkeypatch.setitem(install.LOCKS, "base", str(changed))
    # Then it is to be installed
    assert install._missing(["base", "demo"]) == ["base", "demo"]


def test_without_any_installer_the_way_out_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(install, "home", lambda: tmp_path)
    monkeypatch.setattr(install, "_has_module", lambda name: False)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(StepFailed, match="apt-get install python3-pip"):
        install.ensure(Screen(), sets=("base",))
