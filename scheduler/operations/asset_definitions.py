"""What an asset of each kind is made of, and everything that may be wrong with it. No tables here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from scheduler.core.vocabulary import SourceType
from scheduler.operations.refused import Problem
from scheduler.operations.submissions import env_problems

MAX_TIMEOUT_S = 86_400
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}|\[[0-9a-fA-F:]+\]")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DIGEST = re.compile(r"sha256-[0-9a-f]{64}")
_GIT_SCHEMES = ("https", "http", "ssh", "git")


#: Paths of machines: they may hold other people's files, so that only a system admin offers them.
BY_ADMIN_ONLY = frozenset({SourceType.HOST_PATH, SourceType.NFS})
#: What each type of source says, in the order in which a form asks for it.
SOURCE_FIELDS: dict[SourceType, tuple[str, ...]] = {
    SourceType.TREE: ("digest",),
    SourceType.GIT: ("url", "revision"),
    SourceType.S3: ("endpoint", "bucket", "folder"),
    SourceType.HOST_PATH: ("path",),
    SourceType.NFS: ("server", "path"),
}


def is_inside(name: str) -> bool:
    """Test whether a relative path stays below where it begins."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def find_source_problems(definition: Mapping[str, object]) -> list[Problem]:
    """Return what is wrong with a data source."""
    kind = str(definition.get("type"))
    if kind not in set(SourceType):
        return [_problem("type", "bad_source_type", "Choose where the data lie.")]
    checks: dict[SourceType, Callable[[Mapping[str, object]], list[Problem]]] = {
        SourceType.TREE: _tree_problems,
        SourceType.GIT: _git_problems,
        SourceType.S3: _s3_problems,
        SourceType.HOST_PATH: _path_problems,
        SourceType.NFS: _nfs_problems,
    }
    return checks[SourceType(kind)](definition)


def find_environment_problems(definition: Mapping[str, object]) -> list[Problem]:
    """Return what is wrong with an environment."""
    problems = []
    command = definition.get("command", [])
    if not isinstance(command, list) or any("\0" in str(part) for part in command):
        problems.append(_problem("command", "bad_character", "Must not hold a zero byte."))
    env = definition.get("env", {})
    problems += env_problems(env if isinstance(env, dict) else {"": ""})
    if not is_inside(str(definition.get("working_dir", ""))):
        problems.append(
            _problem(
                "working_dir",
                "bad_working_dir",
                "Give a folder below the workload's own, such as code, without dots that lead out.",
            )
        )
    readiness_path = str(definition.get("readiness_path", ""))
    # {path} is a workspace's own path, which begins with one.
    if readiness_path and not readiness_path.startswith(("/", "{path}")):
        problems.append(_problem("readiness_path", "bad_path", "Begin the path with a slash."))
    timeout_s = definition.get("start_timeout_s", 600)
    if not isinstance(timeout_s, int) or not 1 <= timeout_s <= MAX_TIMEOUT_S:
        problems.append(
            Problem(
                field="start_timeout_s",
                code="out_of_range",
                message=f"Use 1 to {MAX_TIMEOUT_S}.",
                params={"low": 1, "high": MAX_TIMEOUT_S},
            )
        )
    return problems


def find_secret_problems(values: Mapping[str, str]) -> list[Problem]:
    """Return what is wrong with the values of a credential. Never says a value."""
    if not values:
        return [
            _problem("secrets", "no_secret", "Give at least one name and value, such as TOKEN=abc.")
        ]
    problems = env_problems(values, field="secrets")
    if any("\0" in value or not value for value in values.values()):
        problems.append(
            _problem("secrets", "bad_secret", "A value must not be empty or hold a zero byte.")
        )
    return problems


def _tree_problems(definition: Mapping[str, object]) -> list[Problem]:
    if _DIGEST.fullmatch(str(definition.get("digest", ""))):
        return []
    return [_problem("upload", "no_files", "Choose the files, or one archive of them.")]


def _git_problems(definition: Mapping[str, object]) -> list[Problem]:
    problems = []
    url = urlsplit(str(definition.get("url", "")))
    if url.scheme not in _GIT_SCHEMES or not url.hostname:
        problems.append(
            _problem(
                "url",
                "bad_git_url",
                "Give the address of a repository that begins with https://, http://, ssh:// or "
                "git://.",
            )
        )
    elif url.password is not None or (url.username and url.scheme in ("http", "https")):
        problems.append(
            _problem(
                "url",
                "secret_in_url",
                "Leave name and password out of the address: make a credential of them and choose "
                "it here.",
            )
        )
    revision = str(definition.get("revision", ""))
    if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
        problems.append(
            _problem("revision", "bad_revision", "Give a branch, a tag or a commit, or nothing.")
        )
    return problems


def _s3_problems(definition: Mapping[str, object]) -> list[Problem]:
    problems = []
    endpoint = urlsplit(str(definition.get("endpoint", "")))
    if endpoint.scheme not in ("http", "https") or not endpoint.hostname or endpoint.username:
        problems.append(
            _problem(
                "endpoint", "bad_endpoint", "Give the service's address, such as https://s3.host."
            )
        )
    if not _BUCKET.fullmatch(str(definition.get("bucket", ""))):
        problems.append(
            _problem("bucket", "bad_bucket", "Give the bucket's name: small letters, digits, - .")
        )
    if not is_inside(str(definition.get("folder", ""))):
        problems.append(
            _problem("folder", "bad_prefix", "Give a folder without a slash before it, or nothing.")
        )
    return problems


def _nfs_problems(definition: Mapping[str, object]) -> list[Problem]:
    problems = _path_problems(definition)
    if not _HOST.fullmatch(str(definition.get("server", ""))):
        problems.append(_problem("server", "bad_server", "Give the NFS server's name or address."))
    return problems


def _path_problems(definition: Mapping[str, object]) -> list[Problem]:
    path = str(definition.get("path", ""))
    if path.startswith("/") and is_inside(path.lstrip("/")) and path.strip("/"):
        return []
    return [
        _problem(
            "path",
            "bad_host_path",
            "Give a whole path that begins with a slash, without dots that lead out.",
        )
    ]


def _problem(field: str, code: str, message: str) -> Problem:
    return Problem(field=field, code=code, message=message)
