"""``manage.py up``: everything under one supervisor, from an empty folder to a live page."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence

from dashboard.launch import install, resp
from dashboard.launch.options import UpOptions, parse
from dashboard.launch.ports import free_port
from dashboard.launch.processes import Identity, become_reaper, count_mentioning, end_groups
from dashboard.launch.programs import (
    LAST_TICK_KEY,
    STOP_ORDER,
    beat_program,
    is_seen,
    redis_program,
    web_program,
    worker_program,
)
from dashboard.launch.redis import RedisPlan, plan_redis
from dashboard.launch.screen import Screen, Step, StepFailed, run_under
from dashboard.launch.state import RunState
from dashboard.launch.supervisor import Supervisor
from dashboard.launch.tail import LogFollower
from dashboard.launch.watch import TickWatch

START_S = 120.0
DEATHS_THAT_END_A_START = 3
WORKLOAD_SUPERVISOR = "scheduler.engines.shim"
LABELS = {"web": "pages", "worker": "worker", "beat": "timer"}
EVERYWHERE = frozenset({"0.0.0.0", "::"})


class Stopped(Exception):
    """The person asked to stop before the product was ready."""


def main(argv: Sequence[str]) -> int:
    return Up(parse(argv), Screen()).run()


class Up:
    """One run of the product."""

    def __init__(self, options: UpOptions, screen: Screen) -> None:
        self.options = options
        self.screen = screen
        self.begun = time.monotonic()
        self.url = ""
        self.redis_url = ""
        self.port = 0
        self.password = ""
        self.logs = options.data / "logs"
        options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.state = RunState(data=options.data)
        self.supervisor = Supervisor(
            cwd=install.ROOT,
            logs=self.logs,
            environment=self._environment(),
            report=lambda text: self.screen.warn(f"{_clock()}  {text}"),
            on_change=self._remember,
        )

    def run(self) -> int:
        if not self.state.take():
            pid, url = self.state.read_running()
            self.screen.say(f"Tidegate is already running at {url or 'its address'} (pid {pid}).")
            self.screen.say(f"Open that page, or end it first: Ctrl-C there, or kill {pid}.")
            return 0
        become_reaper()
        self.supervisor.listen_for_signals()
        try:
            self._start()
            self._announce()
            self._follow()
        except Stopped:
            self.screen.say()
        except StepFailed as failure:
            self._show_password()
            self.screen.say(f"\n{self.screen.style('Tidegate did not start.', 'red')} {failure}")
            return 1
        finally:
            self._stop()
        return 0

    # --- Start -----------------------------------------------------------------------------------

    def _start(self) -> None:
        self.screen.say(self.screen.style("Starting Tidegate", "bold"))
        self._clear_leftovers()
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        redis = plan_redis(data=self.options.data)
        self._start_redis(redis)
        self._prepare()
        self._choose_port()
        self.supervisor.start(web_program(host=self.options.host, port=self.port))
        self.supervisor.start(worker_program(redis_url=redis.url, port=self.port))
        self.supervisor.start(beat_program(redis_url=redis.url))
        for name, label in LABELS.items():
            with self.screen.step(label) as step:
                self._wait(name, step)
        with self.screen.step("first tick of the scheduler") as step:
            begun_at = self.supervisor.children["beat"].started_at
            self._wait_until(lambda: is_seen(redis.url, LAST_TICK_KEY, since=begun_at), step)
        self.redis_url = redis.url

    def _clear_leftovers(self) -> None:
        leftovers = [who for who in self.state.read_leftovers() if who.has_group()]
        if leftovers:
            with self.screen.step("clearing what an earlier run left"):
                end_groups(leftovers, grace_s=5.0)
        self.state.clear()

    def _start_redis(self, redis: RedisPlan) -> None:
        with self.screen.step(f"Redis: {redis.origin}"[:40]) as step:
            if redis.argv:
                self.supervisor.start(redis_program(redis))
                self._wait("redis", step)
            elif not resp.ping(redis.url):
                raise StepFailed(f"The Redis of REDIS_URL does not answer: {redis.origin}.")

    def _prepare(self) -> None:
        """Bring the tables up to date; on a new database make the administrator and the demo."""
        chosen = [] if self.options.is_empty else ["--demo", self.options.demo]
        given = os.environ.get("TIDEGATE_ADMIN_PASSWORD", "")
        password = given or _new_password()
        label = "database and pages' files"
        with self.screen.step(label) as step:
            text = run_under(
                step,
                [sys.executable, "manage.py", "prepare", *chosen],
                log=self.logs / "prepare.log",
                cwd=install.ROOT,
                environment={**self._environment(), "TIDEGATE_ADMIN_PASSWORD": password},
                is_unwanted=self.supervisor.is_stop_asked,
            )
        made = json.loads(text.strip().splitlines()[-1])
        if made["admin_made"] and not given:
            self.password = password
        if made["demo"]:
            self.screen.note(f"the demonstration {made['demo']!r} is laid out")
        elif self.options.is_demo_chosen and not self.options.is_empty:
            self.screen.warn("--demo is for a new data folder; this one is already in use as it is")

    def _choose_port(self) -> None:
        host, wanted = self.options.host, self.options.port
        try:
            self.port = free_port(host=host, wanted=wanted)
        except OSError as error:
            raise StepFailed(f"Cannot listen on {host}: {error}.") from error
        if wanted not in (0, self.port):
            self.screen.warn(f"port {wanted} is in use; taking {self.port}")
        shown = "127.0.0.1" if host in EVERYWHERE else host
        self.url = (
            f"http://[{shown}]:{self.port}/" if ":" in shown else f"http://{shown}:{self.port}/"
        )
        # Another name of this machine is another site: what a workspace shows can't use a sign-in here.
        own = f"http://localhost:{self.port}/" if shown == "127.0.0.1" else ""
        (self.options.data / "workspace.url").write_text(own, encoding="ascii")
        (self.options.data / "web.url").write_text(self.url, encoding="ascii")  # for running work

    def _wait(self, name: str, step: Step) -> None:
        self._wait_until(lambda: self.supervisor.answers(name), step)

    def _wait_until(self, is_there: Callable[[], bool], step: Step) -> None:
        deadline = time.monotonic() + START_S
        while not is_there():
            step.tick()
            self.supervisor.pause(0.1)
            if self.supervisor.is_stop_asked():
                raise Stopped
            for name, child in self.supervisor.children.items():
                if child.deaths >= DEATHS_THAT_END_A_START:
                    raise StepFailed(self._last_words(name))
            if time.monotonic() > deadline:
                raise StepFailed(f"No answer within {START_S:.0f} s; see {self.logs}.")

    def _last_words(self, name: str) -> str:
        log = self.logs / f"{name}.log"
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
        return "\n".join([f"{name} ends again and again. The end of {log}:", *tail])

    # --- Run -------------------------------------------------------------------------------------

    def _announce(self) -> None:
        took_s = time.monotonic() - self.begun
        ready = self.screen.style(f"Tidegate is ready at {self.url}", "green")
        self.screen.say(f"\n{ready}  (started in {took_s:.1f} s)")
        self._show_password()
        self.screen.say(f"Logs are in {self.logs}. Ctrl-C ends it.\n")
        if self.options.opens_browser and _has_display():
            webbrowser.open(self.url)

    def _show_password(self) -> None:
        if self.password:
            shown = self.screen.style(self.password, "bold")
            self.screen.say(f"Sign in as admin with the password {shown} (shown only this once).")
            self.password = ""

    def _follow(self) -> None:
        follower = LogFollower(folder=self.logs, names=STOP_ORDER)
        watch = TickWatch(url=self.redis_url, key=LAST_TICK_KEY)
        while not self.supervisor.is_stop_asked():
            self.supervisor.pause(0.5)
            for line in follower.read_new():
                self.screen.say(f"  {self.screen.style(_clock(), 'dim')}  {line}")
            if reason := watch.find_silence():
                for name in ("worker", "beat"):
                    self.supervisor.restart(name, reason=reason)

    def _stop(self) -> None:
        if any(child.process for child in self.supervisor.children.values()):
            self.screen.say()
            with self.screen.step("ending"):
                self.supervisor.stop_all(order=STOP_ORDER)
            self._say_what_goes_on()
        self.state.clear()

    def _say_what_goes_on(self) -> None:
        left = count_mentioning(WORKLOAD_SUPERVISOR, str(self.options.data))
        if left:
            self.screen.note(f"{left} workloads go on by themselves; the next up takes them over")
            folder = self.options.data
            where = "" if folder == install.ROOT / "var" else f"TIDEGATE_DATA={folder} "
            self.screen.note(f"to end them too: {where}python3 manage.py end_work")

    # --- Small things ----------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "TIDEGATE_DATA": str(self.options.data),
            "TIDEGATE_HOST": self.options.host,
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        }

    def _remember(self, children: Mapping[str, Identity]) -> None:
        self.state.write(url=self.url, children=children)


def _new_password() -> str:
    """Return four groups of four letters and digits that cannot be mistaken for one another."""
    alphabet = "abcdefghjkmnpqrstuvwxyz23456789"
    groups = ("".join(secrets.choice(alphabet) for _ in range(4)) for _ in range(4))
    return "-".join(groups)


def _has_display() -> bool:
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _clock() -> str:
    return time.strftime("%H:%M:%S")
