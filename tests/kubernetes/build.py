"""Builds a real kube-apiserver and fetches etcd, from Debian's packages, into a cache outside the repository.

    nice -n 19 python3 tests/kubernetes/build.py

Needs Debian 12 with dpkg-dev and make; compiler and etcd are unpacked, not installed. Packages come from
where this machine's apt takes its own. Takes about ten CPU minutes and 3 GiB of disk, most of which is
given back. Done once for each machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

RELEASE = "bookworm"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
#: The compiler that this source package is built with, and the store that the API server needs.
PACKAGES = ("golang-1.19-go", "golang-1.19-src", "etcd-server")
BINARIES = ("kube-apiserver", "etcd")


def cache_dir() -> Path:
    """Return the folder in which the tests look for the two programs."""
    chosen = os.environ.get("TIDEGATE_TEST_KUBERNETES")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(home) / "tidegate" / "kubernetes"


def is_built() -> bool:
    """Test whether both programs are there."""
    return all((cache_dir() / name).is_file() for name in BINARIES)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build kube-apiserver for the tests, once.")
    parser.add_argument("--jobs", type=int, default=1, help="how many compilers side by side")
    parser.add_argument("--keep", action="store_true", help="keep sources and intermediate files")
    given = parser.parse_args()
    if is_built():
        print(f"already there: {cache_dir()}")
        return 0
    work = cache_dir() / "work"
    work.mkdir(parents=True, exist_ok=True)
    fetch(work)
    shutil.copy2(work / "root/usr/bin/etcd", cache_dir() / "etcd")
    built = compile_server(work, jobs=given.jobs)
    shutil.copy2(built, cache_dir() / "kube-apiserver")
    if not given.keep:
        shutil.rmtree(work)
    print(f"built: {cache_dir()}")
    return 0


def fetch(work: Path) -> None:
    """Fetch sources and packages with an apt of their own, and unpack them."""
    for folder in ("lists/partial", "cache/archives/partial", "debs", "root"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    line = f"[signed-by={KEYS}] {mirror()} {RELEASE} main\n"
    (work / "sources.list").write_text(f"deb {line}deb-src {line}")
    own = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = [
        "apt-get",
        "-q",
        *(word for name, value in own.items() for word in ("-o", f"{name}={value}")),
    ]
    run([*apt, "update"], work)
    run([*apt, "download", *PACKAGES], work / "debs")
    for package in sorted((work / "debs").glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(work / "root")], work)
    run([*apt, "source", "--download-only", "kubernetes"], work)
    (description,) = work.glob("kubernetes_*.dsc")
    shutil.rmtree(work / "kubernetes", ignore_errors=True)
    # What apt fetched is checked against the signed list already.
    run(["dpkg-source", "--no-check", "-x", description.name, "kubernetes"], work)


def mirror() -> str:
    """Return where this machine takes its packages of Debian 12 from."""
    asked = [
        "apt-get",
        "indextargets",
        "--format",
        "$(CREATED_BY) $(RELEASE) $(COMPONENT) $(REPO_URI)",
    ]
    told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    for line in told.splitlines():
        kind, release, component, uri = line.split()
        if (kind, release, component) == ("Packages", RELEASE, "main"):
            return uri
    sys.exit(f"apt knows no place of {RELEASE}'s main packages: this builds on Debian 12 only")


def compile_server(work: Path, *, jobs: int) -> Path:
    """Run the code generators, then the compiler; both are what the package's own rules call."""
    source = work / "kubernetes"
    place = source / ".go/src/k8s.io"
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "kubernetes").is_symlink():
        (place / "kubernetes").symlink_to("../../..")
    # The package's scripts copy single files by rsync and want nothing else of it.
    (work / "bin").mkdir(exist_ok=True)
    copy = work / "bin" / "rsync"
    copy.write_text('#!/bin/sh\nexec cp -p "$2" "$3"\n')
    copy.chmod(0o755)
    environment = {
        "PATH": f"{work / 'bin'}:{work / 'root/usr/lib/go-1.19/bin'}:{os.environ['PATH']}",
        "GOROOT": str(work / "root/usr/lib/go-1.19"),
        "GOPATH": str(source / ".go"),
        "GOCACHE": str(work / "gocache"),
        "GO111MODULE": "off",
        "GOFLAGS": f"-p={jobs}",
        "GOMAXPROCS": str(jobs),
        "CGO_ENABLED": "0",
        "HOME": str(work),
    }
    run(["make", "WHAT=cmd/kube-apiserver"], source, environment)
    return source / "_output/bin/kube-apiserver"


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run a command with its output shown; an error ends the build."""
    print("$", *command, flush=True)
    given = {**os.environ, **environment} if environment else None
    subprocess.run(command, cwd=folder, env=given, check=True)


if __name__ == "__main__":
    sys.exit(main())
