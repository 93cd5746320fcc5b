"""Fetches what a workload mounts, then becomes the workload: the first thing its process does.

Run by the supervisor in the place of the command, with the folder of the replica as its argument. What
is fetched lies in the store, once for all; a workload keeps what it got at first, also where a branch
has moved on since. Secrets come from the replica's order, and go to the fetching program alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from scheduler.engines import records, s3
from scheduler.engines.base import LaunchRefused
from scheduler.engines.mounts import link
from scheduler.engines.records import Errand, Fetch, Paths
from scheduler.engines.store import Store, TreeRefused

#: Which command a replica with an errand is started by; its first argument is the replica's folder.
PROGRAM = "import sys; sys.path[:0] = [{root!r}]; from scheduler.engines.fetch import main; main()"
_KEPT = ".mounted.json"
_FAILED = 1
_CREDENTIAL_HELPER = (
    "credential.helper=!f() { echo username=$FETCH_USERNAME; echo password=$FETCH_PASSWORD; }; f"
)


class FetchFailed(Exception):
    """It could not be fetched; the message is for the workload's owner and holds no secret."""


def command_for(directory: str) -> list[str]:
    """Return the command that fetches and then becomes the work."""
    root = str(Path(__file__).resolve().parents[2])
    return [sys.executable, "-I", "-c", PROGRAM.format(root=root), directory]


def main() -> None:
    """Fetch, link, and become the command of the order."""
    order = records.find_order(Paths(sys.argv[1]))
    errand = None if order is None else order["errand"]
    if errand is None:
        sys.exit(_FAILED)
    try:
        for fetch in errand["fetches"]:
            _mount(fetch, errand)
    except (FetchFailed, LaunchRefused, TreeRefused, s3.S3Failed) as failure:
        _say(f"can't be mounted: {failure}")
        sys.exit(_FAILED)
    os.makedirs(errand["cwd"], exist_ok=True)
    os.chdir(errand["cwd"])
    try:
        os.execvp(errand["command"][0], errand["command"])
    except OSError as error:
        _say(f"{errand['command'][0]}: {error.strerror}")
        sys.exit(127)


def _mount(fetch: Fetch, errand: Errand) -> None:
    store, work_dir = Store(Path(errand["store"])), Path(errand["work_dir"])
    with store.locked(f"{errand['work_dir']}/{fetch['name']}"):  # a gang's replicas share it
        wish = json.dumps(fetch["about"], sort_keys=True)
        kept = _read_kept(work_dir)
        if kept.get(fetch["name"], {}).get("wish") != wish or (
            store.find(kept[fetch["name"]]["tree"]) is None
        ):
            _say(f"fetching {fetch['name']}")
            tree = _fetch(fetch, store)
            kept = {**_read_kept(work_dir), fetch["name"]: {"wish": wish, "tree": tree}}
            records.write_json(str(work_dir / _KEPT), kept)
            _say(f"fetched {fetch['name']} as {tree}")
        found = store.find(kept[fetch["name"]]["tree"])
        assert found is not None
        link(work_dir / fetch["name"], found)


def _read_kept(work_dir: Path) -> dict[str, dict[str, str]]:
    return records.find_json(str(work_dir / _KEPT)) or {}


def _fetch(fetch: Fetch, store: Store) -> str:
    if fetch["source"] == "s3":
        return s3.fetch(about=fetch["about"], secrets=fetch["secrets"], store=store)
    return _fetch_git(about=fetch["about"], secrets=fetch["secrets"], store=store)


def _fetch_git(*, about: dict[str, str], secrets: dict[str, str], store: Store) -> str:
    """Bring a repository's copy up to date and check one commit out; return the tree's name."""
    url, revision = about["url"], about.get("revision") or "HEAD"
    repository = store.root / "git" / hashlib.sha256(url.encode()).hexdigest()[:40]
    with store.locked(f"git {url}"):
        if not repository.exists():
            _git(["init", "--quiet", "--bare", str(repository)], secrets={})
        commit = _find_commit(repository, url, revision, secrets)
        tree = f"git-{commit}"
        if store.find(tree) is None:
            with store.draft() as draft:
                where = {"GIT_WORK_TREE": str(draft), "GIT_INDEX_FILE": f"{draft}.index"}
                try:
                    _git(["checkout", "--quiet", "--force", commit, "--", "."], repository, where)
                finally:
                    Path(f"{draft}.index").unlink(missing_ok=True)
                store.publish(draft, name=tree)
    return tree


def _find_commit(repository: Path, url: str, revision: str, secrets: dict[str, str]) -> str:
    """Fetch one revision alone where the server can do that, else all branches and tags."""
    alone = _try_git(
        ["fetch", "--quiet", "--depth=1", "--no-tags", url, revision], repository, secrets
    )
    if alone is None:
        return _git(["rev-parse", "FETCH_HEAD^{commit}"], repository)
    every = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "HEAD"]
    failure = _try_git(["fetch", "--quiet", url, *every], repository, secrets)
    if failure is not None:
        raise FetchFailed(f"{url}: {failure}")
    for name in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
        at = "FETCH_HEAD" if name == "HEAD" else name
        if _try_git(["rev-parse", "--quiet", "--verify", f"{at}^{{commit}}"], repository) is None:
            return _git(["rev-parse", f"{at}^{{commit}}"], repository)
    raise FetchFailed(f"{url} has no branch, tag or commit {revision}")


def _git(
    words: list[str],
    repository: Path | None = None,
    where: dict[str, str] | None = None,
    *,
    secrets: dict[str, str] | None = None,
) -> str:
    code, said, complained = _run_git(words, repository, where or {}, secrets or {})
    if code:
        raise FetchFailed(f"git {words[0]}: {complained}")
    return said


def _try_git(
    words: list[str], repository: Path, secrets: dict[str, str] | None = None
) -> str | None:
    """Run it; return None where it went well, else the last line of what it complained of."""
    code, _said, complained = _run_git(words, repository, {}, secrets or {})
    return complained if code else None


def _run_git(
    words: list[str], repository: Path | None, where: dict[str, str], secrets: dict[str, str]
) -> tuple[int, str, str]:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.devnull,
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:git",
        **({} if repository is None else {"GIT_DIR": str(repository)}),
        **where,
    }
    config = []
    if secrets:
        config = ["-c", "credential.helper=", "-c", _CREDENTIAL_HELPER]
        env["FETCH_USERNAME"] = secrets.get("USERNAME", "git")
        env["FETCH_PASSWORD"] = secrets.get("PASSWORD", "") or secrets.get("TOKEN", "")
    try:
        done = subprocess.run(
            ["git", *config, *words], env=env, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise FetchFailed("git is not installed on this machine") from error
    lines = done.stderr.strip().splitlines() or ["it failed"]
    return done.returncode, done.stdout.strip(), lines[-1]


def _say(text: str) -> None:
    print(f"tidegate: {text}", flush=True)  # noqa: T201
