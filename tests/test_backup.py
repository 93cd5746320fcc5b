"""Backup and restore: all comes back, on both databases, and nothing here is overwritten unasked."""

from __future__ import annotations

import os
import subprocess
import tarfile

import pytest

from dashboard.backups import archive
from tests.product import Product, make_database

ON_POSTGRES = bool(os.environ.get("DATABASE_URL"))
pytestmark = [pytest.mark.django_db]


@pytest.fixture
def make_installation(tmp_path):
    def make(name):
        found = Product(data=tmp_path / name)
        found.data.mkdir()
        if ON_POSTGRES:
            found.environment["DATABASE_URL"] = make_database(
                f"backup_{os.getpid()}_{tmp_path.name[-12:]}_{name}".replace("-", "_").lower()
            )
        return found

    return make


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


CONTENT = """
import hashlib
from dashboard.backups import databases
from django.db import connection
for table in databases._tables():
    if table == "django_migrations":
        continue
    columns = ", ".join(databases._quoted(each) for each in databases._columns(table))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {databases._quoted(table)} ORDER BY 1")
        rows = repr(cursor.fetchall())
    print(table, hashlib.sha256(rows.encode()).hexdigest())
"""


def content(installation) -> str:
    """Return a digest of every row of every table."""
    return done(installation.manage("shell", "--no-imports", "-c", CONTENT))


def test_everything_comes_back_and_nothing_is_overwritten_unasked(make_installation, tmp_path):
    # Given an installation with a demonstration, keys, uploaded data and a checkpoint
    old = make_installation("old")
    done(old.manage("prepare", "--demo", "card"))
    checkpoint = old.data / "workloads" / "engine" / "storage" / "workload-1" / "newest.ckpt"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_bytes(b"saved")
    file = tmp_path / "backup.tar.gz"
    # When it is backed up, and restored into an empty one
    said = done(old.manage("backup", str(file)))
    assert "It holds secrets" in said
    assert file.stat().st_mode & 0o077 == 0
    new = make_installation("new")
    said = done(new.manage("restore", str(file)))
    # Then every row is the same, and so are keys and checkpoints
    assert "Restored: " in said
    assert content(new) == content(old)
    for key in ("secret.key", "credentials.key"):
        assert (new.data / key).read_text() == (old.data / key).read_text()
    assert (new.data / checkpoint.relative_to(old.data)).read_bytes() == b"saved"
    # And what is written next gets a number of its own
    done(new.manage("token", "admin"))
    # And a second restore is refused
    again = new.manage("restore", str(file))
    assert again.returncode != 0
    assert "users" in again.stderr
    if not ON_POSTGRES:
        said = done(new.manage("restore", str(file), "--replace"))
        assert "Moved aside: " in said
        assert content(new) == content(old)


def test_without_work_leaves_checkpoints_out(make_installation, tmp_path):
    old = make_installation("old")
    done(old.manage("prepare"))
    (old.data / "workloads" / "engine" / "logs").mkdir(parents=True)
    (old.data / "workloads" / "engine" / "logs" / "1-1").write_text("printed")
    file = tmp_path / "backup.tar.gz"
    done(old.manage("backup", str(file), "--without-work"))
    with tarfile.open(file) as tar:
        assert [name for name in tar.getnames() if name.startswith("workloads/engine")] == []


def test_what_is_no_backup_is_refused_with_its_reason(tmp_path):
    for name, content_, reason in (
        ("text.tar.gz", b"hello", "can't be read as a backup"),
        ("gone.tar.gz", None, "can't be read as a backup"),
    ):
        file = tmp_path / name
        if content_ is not None:
            file.write_bytes(content_)
        with pytest.raises(archive.NoBackup) as refused:
            archive.read(file)
        assert reason in str(refused.value)
