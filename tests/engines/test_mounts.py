"""Data sources are really there: links to what a machine has, fetched once where it has not."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from scheduler.core.vocabulary import SourceType
from scheduler.engines import mounts
from scheduler.engines.base import DeviceGrant, LaunchRefused, Mount
from scheduler.engines.orders import Folders, make_order
from scheduler.engines.store import Store, TreeRefused
from tests.engines.harness import (
    command_line,
    launch,
    service,
    spec,
    wait_ended,
    wait_for,
    wait_log,
)

LIST = ("sh", "-c", "cat weights/model.txt; pwd; echo at $TIDEGATE_DATA_WEIGHTS; echo done")


def of(source, *, name="weights", secrets=(), within=(), **about):
    return Mount(
        name=name,
        source=SourceType(source),
        about=tuple(about.items()),
        secrets=tuple(secrets),
        within=within,
    )


def kept(root: Path, **files: str):
    store = Store(root / "store")
    given = [(name.replace("__", "/"), io.BytesIO(text.encode())) for name, text in files.items()]
    return store.add_files(given, limit_bytes=10_000, limit_files=10)


# --- What is on the machine -----------------------------------------------------------------------


def test_an_uploaded_tree_lies_in_the_working_directory(local):
    # Given a tree that was kept once
    tree = kept(local.data_dir, **{"model.txt": "seven\n", "deep__er.txt": "x"})
    assert (tree.files, tree.size_bytes) == (2, 7)
    # When two replicas mount it
    wanted = {"mounts": (of("tree", digest=tree.name),)}
    for number in (1, 2):
        text = wait_log(local, launch(local, spec(LIST, replica=number, **wanted)), "done")
        # Then each reads it, and finds its folder in the environment too
        assert "seven" in text
        assert f"workload-{number}/work/weights" in text
    # And there is one copy, which nobody may write to
    trees = list((local.data_dir / "store" / "trees").iterdir())
    assert [path.name for path in trees] == [tree.name]
    assert os.stat(trees[0] / "model.txt").st_mode & 0o222 == 0


def test_the_same_files_are_kept_once(tmp_path):
    assert kept(tmp_path, a="1", b="2").name == kept(tmp_path, b="2", a="1").name
    assert kept(tmp_path, a="1", b="3").name != kept(tmp_path, a="1", b="2").name
    assert not list((tmp_path / "store").glob("draft-*"))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "..\\x", ""])
def test_a_tree_can_not_lead_out(tmp_path, name):
    store = Store(tmp_path)
    with pytest.raises(TreeRefused):
        store.add_files([(name, io.BytesIO(b"x"))], limit_bytes=10, limit_files=1)


def test_a_tree_has_bounds(tmp_path):
    store = Store(tmp_path)
    for files in ([("a", b"x" * 11)], [("a", b"x"), ("b", b"y")], []):
        given = [(name, io.BytesIO(data)) for name, data in files]
        with pytest.raises(TreeRefused):
            store.add_files(given, limit_bytes=10, limit_files=1)


def test_a_host_path_is_linked(local, tmp_path_factory):
    offered = tmp_path_factory.mktemp("offered")
    (offered / "model.txt").write_text("from the host\n")
    wanted = of("host_path", path=str(offered), within=(os.path.realpath(offered.parent),))
    text = wait_log(local, launch(local, spec(LIST, mounts=(wanted,))), "done")
    assert "from the host" in text


def test_a_host_path_that_leads_out_is_refused(local, tmp_path_factory):
    # Given a link in an allowed folder that was turned to other people's files
    offered = tmp_path_factory.mktemp("offered")
    (offered / "data").symlink_to("/etc")
    wanted = of("host_path", path=str(offered / "data"), within=(os.path.realpath(offered),))
    # When it is mounted, then it is refused
    with pytest.raises(LaunchRefused, match="leads out of the folders"):
        local.engine.launch(spec(LIST, mounts=(wanted,)))


def test_nfs_is_found_in_the_mount_table(tmp_path):
    point, work = tmp_path / "mnt", tmp_path / "work"
    (point / "sets" / "digits").mkdir(parents=True)
    work.mkdir()
    table = tmp_path / "mounts"
    table.write_text(f"tmpfs / tmpfs rw 0 0\nnas:/export {point} nfs4 rw,vers=4.2 0 0\n")

    def place(**about):
        mounts.place(
            mounts=(of("nfs", **about),),
            work_dir=work,
            store=Store(tmp_path / "store"),
            mount_table=str(table),
        )
        return os.readlink(work / "weights")

    assert place(server="nas", path="/export/sets/digits") == str(point / "sets" / "digits")
    for about in ({"server": "nas", "path": "/other"}, {"server": "nas2", "path": "/export"}):
        with pytest.raises(LaunchRefused, match="is not mounted on this machine"):
            place(**about)


def test_what_the_work_made_itself_is_not_touched(tmp_path):
    (tmp_path / "weights").mkdir()
    with pytest.raises(LaunchRefused, match="is the workload's own"):
        mounts.link(tmp_path / "weights", Path("/tmp"))


def test_work_begins_where_its_environment_says(local):
    tree = kept(local.data_dir, **{"model.txt": "x"})
    command = (*LIST[:2], "pwd; echo done")
    wanted = {"working_dir": "weights", "mounts": (of("tree", digest=tree.name),)}
    text = wait_log(local, launch(local, spec(command, **wanted)), "done")
    assert text.splitlines()[0].endswith(tree.name)
    with pytest.raises(LaunchRefused, match="leads out"):
        local.engine.launch(spec(LIST, replica=2, working_dir="../../other"))


def test_the_port_stands_in_the_command(local):
    command = ("python", "-m", "http.server", "{port}", "--bind", "127.0.0.1")
    key = launch(local, spec(command, service=service()))
    seen = wait_for(local, key, lambda seen: seen.ready, what="an answer at the port")
    assert str(seen.endpoint.port) in command_line(seen.pid)


# --- What is fetched ------------------------------------------------------------------------------


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args):
        pass


class _Guarded(_Quiet):
    """Asks for a name and a password, and remembers what it was told."""

    told: set[str] = set()

    def do_GET(self):
        given = self.headers.get("Authorization", "")
        if not given:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        self.told.add(given)
        super().do_GET()


@contextmanager
def served(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def git(*words, at):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *words], cwd=at, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path_factory):
    """A repository that any web server can serve."""
    at = tmp_path_factory.mktemp("repository")
    git("init", "-q", at=at)
    commit(at, "seven")
    return at


def commit(at, text):
    (at / "model.txt").write_text(f"{text}\n")
    git("add", ".", at=at)
    git("commit", "-qm", text, at=at)
    git("update-server-info", at=at)
    return git("rev-parse", "HEAD", at=at)


def test_a_repository_is_fetched_once_and_kept_for_the_work(local, repository):
    with served(partial(_Quiet, directory=str(repository / ".git"))) as url:
        wanted = {"mounts": (of("git", url=url, revision="main"),)}
        first = git("rev-parse", "HEAD", at=repository)
        # Given a workload that mounted a branch
        text = wait_log(local, launch(local, spec(LIST, **wanted)), "done")
        assert "seven" in text
        assert f"git-{first}" in text
        # When the branch moves on, its next attempt keeps what it had
        commit(repository, "eight")
        again = wait_log(local, launch(local, spec(LIST, attempt=2, **wanted)), "done")
        assert "seven" in again
        assert "fetching" not in again
        # And another workload gets the new one
        other = wait_log(local, launch(local, spec(LIST, replica=2, **wanted)), "done")
        assert "eight" in other
    # When the server is away, what was fetched is there all the same
    later = wait_log(local, launch(local, spec(LIST, attempt=3, **wanted)), "done")
    assert "seven" in later


def test_a_repository_that_is_not_there_ends_the_work_with_the_reason(local, repository):
    with served(partial(_Quiet, directory=str(repository / ".git"))) as url:
        wanted = (of("git", url=url, revision="nothing"),)
        key = launch(local, spec(LIST, mounts=wanted))
        ended = wait_ended(local, key)
    assert ended.exit_code == 1
    log = local.engine.read_log(key, offset=0, limit_bytes=4000).text
    assert "has no branch, tag or commit nothing" in log


def test_a_password_reaches_the_repository_and_nothing_else(local, repository):
    secret = "pearl-of-the-tide"
    with served(partial(_Guarded, directory=str(repository / ".git"))) as url:
        command = ("sh", "-c", "env; cat weights/model.txt; echo done; exec sleep 600")
        wanted = (of("git", url=url, secrets=(("USERNAME", "lin"), ("PASSWORD", secret))),)
        # When it is fetched
        key = launch(local, spec(command, mounts=wanted))
        text = wait_log(local, key, "done")
    # Then the repository was told, and neither log, environment nor command line has it
    assert _Guarded.told
    assert "seven" in text
    assert secret not in text
    seen = wait_for(local, key, lambda seen: seen.pid is not None)
    assert secret not in command_line(seen.pid)
    assert secret not in command_line(seen.supervisor_pid)
    assert secret not in repr(spec(command, mounts=wanted, env=(("TOKEN", secret),)))


@pytest.fixture(scope="module")
def s3():
    """An S3 service on this machine with one bucket."""
    code = (
        "from moto.server import ThreadedMotoServer; import sys, time\n"
        "s = ThreadedMotoServer(port=0, verbose=False); s.start()\n"
        "print(s.get_host_and_port()[1], flush=True); sys.stdin.read(); s.stop()"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
    import boto3  # type: ignore[import-untyped]

    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys).create_bucket(
        Bucket="sets"
    )
    yield endpoint
    server.stdin.close()
    server.wait(timeout=20)


def put(endpoint, **objects):
    bucket = S3Store(
        "sets",
        endpoint=endpoint,
        region="us-east-1",
        access_key_id="key",
        secret_access_key="secret",
        client_options={"allow_http": True},
    )
    for name, text in objects.items():
        obstore.put(bucket, name.replace("__", "/"), text.encode())


KEYS = (("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"))


def test_objects_below_a_prefix_are_fetched_once(local, s3):
    put(s3, **{"digits__model.txt": "nine\n", "digits__deep__er.txt": "x", "other__x": "y"})
    wanted = {"mounts": (of("s3", endpoint=s3, bucket="sets", folder="digits", secrets=KEYS),)}
    command = ("sh", "-c", "cat weights/model.txt; cd weights; find -L . -type f; echo done")
    texts = [
        wait_log(local, launch(local, spec(command, replica=number, **wanted)), "done")
        for number in (1, 2)
    ]
    assert all("nine" in text and "./deep/er.txt" in text for text in texts)
    assert not any("./other" in text for text in texts)
    assert len(list((local.data_dir / "store" / "trees").iterdir())) == 1


def test_a_prefix_without_objects_ends_the_work_with_the_reason(local, s3):
    wanted = (of("s3", endpoint=s3, bucket="sets", folder="nothing", secrets=KEYS),)
    key = launch(local, spec(LIST, mounts=wanted))
    assert wait_ended(local, key).exit_code == 1
    assert "there are no objects" in local.engine.read_log(key, offset=0, limit_bytes=4000).text


def test_the_order_tells_what_to_fetch_to_its_owner_alone(local):
    wanted = (of("git", url="https://127.0.0.1:1/x", secrets=(("PASSWORD", "pearl"),)),)
    key = launch(local, spec(LIST, mounts=wanted))
    path = local.data_dir / "engine" / "replicas" / str(key) / "order.json"
    assert path.stat().st_mode & 0o077 == 0
    order = json.loads(path.read_text())
    assert "pearl" not in json.dumps([order["command"], order["env"]])
    wait_ended(local, key)
    assert "pearl" not in local.engine.read_log(key, offset=0, limit_bytes=4000).text


@pytest.mark.parametrize(
    ("virtual", "seen"),
    [(True, "0.93"), (False, "0.083")],
)
def test_a_share_of_the_slice_is_told_as_what_the_process_sees(tmp_path, virtual, seen):
    # Given 0.09 of a card, which on a virtual one is all that there is, on a real one a part of it
    grant = DeviceGrant(index=0, uuid="GPU-0", request_mgpu=90, memory_mib=4146, virtual=virtual)
    wanted = spec(("echo", "{name}", "{slice:0.93}"), devices=(grant,))
    order = make_order(
        spec=wanted,
        engine_id="00",
        folders=Folders(replica=str(tmp_path), output=tmp_path, storage=tmp_path),
        store=Store(tmp_path / "store"),
        wake_path="",
        port=None,
    )
    assert order["command"] == ["echo", "train-1", seen]
