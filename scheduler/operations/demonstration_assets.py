"""What a demonstration defines of assets: a data source, and two environments with a template each."""

from __future__ import annotations

import io
import shlex
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from django.conf import settings

from scheduler import models
from scheduler.core.vocabulary import AssetKind, Kind
from scheduler.operations import asset_files, assets
from scheduler.operations.authority import Authority
from scheduler.operations.submissions import Submission

SOURCE, ENVIRONMENT, TEMPLATE = "examples", "digits", "train-digits"
NOTEBOOKS = "jupyterlab"
#: A workspace with a page; its files are in its own folder.
JUPYTER = "jupyter lab --no-browser --ip=127.0.0.1 --port={port} --ServerApp.root_dir=."
#: It is asked for by the name of its own host, which is not this machine's.
JUPYTER_PLACE = "--ServerApp.base_url={path} --ServerApp.allow_remote_access=True"


def define(*, authority: Authority, now: datetime) -> None:
    """Define two ways to begin: a training of the product's example programs, and a notebook."""
    _define_training(authority, now)
    _define_notebooks(authority, now)


def _define_training(authority: Authority, now: datetime) -> None:
    source = _examples(authority, now)
    environment = _environment(
        name=ENVIRONMENT,
        description="Trains a classifier of handwritten digits from the data source",
        command=["python", f"{SOURCE}/training/train_digits.py", "--epochs", "300"],
        authority=authority,
        now=now,
    )
    _template(
        name=TEMPLATE,
        description="A training of 0.09 of a GPU; only a name is missing",
        submission=Submission(
            name="",
            kind=Kind.TRAINING,
            command=[],
            request_mgpu=90,
            environment_id=environment.pk,
            source_ids=[source.pk],
        ),
        authority=authority,
        now=now,
    )


def _define_notebooks(authority: Authority, now: datetime) -> None:
    environment = _environment(
        name=NOTEBOOKS,
        description="JupyterLab, opened from its page; the node needs it: pip install jupyterlab",
        command=shlex.split(f"{JUPYTER} {JUPYTER_PLACE}"),
        readiness_path="{path}api",
        authority=authority,
        now=now,
    )
    _template(
        name=NOTEBOOKS,
        description="A workspace of 0.05 of a GPU with JupyterLab; only a name is missing",
        submission=Submission(
            name="",
            kind=Kind.WORKSPACE,
            command=[],
            request_mgpu=50,
            environment_id=environment.pk,
        ),
        authority=authority,
        now=now,
    )


def _examples(authority: Authority, now: datetime) -> models.Asset:
    folder = Path(settings.BASE_DIR) / "examples"
    files = [
        (str(path.relative_to(folder)), io.BytesIO(path.read_bytes()))
        for path in sorted(folder.rglob("*.py"))
    ]
    tree = asset_files.keep_files(files=files)
    return assets.create_asset(
        kind=AssetKind.SOURCE,
        draft=assets.AssetDraft(
            name=SOURCE,
            description="The example programs, uploaded once",
            definition={
                "type": "tree",
                "digest": tree.name,
                "files": tree.files,
                "bytes": tree.size_bytes,
            },
        ),
        authority=authority,
        now=now,
    )


def _environment(
    *,
    name: str,
    description: str,
    command: list[str],
    authority: Authority,
    now: datetime,
    readiness_path: str = "",
) -> models.Asset:
    return assets.create_asset(
        kind=AssetKind.ENVIRONMENT,
        draft=assets.AssetDraft(
            name=name,
            description=description,
            definition={
                "command": command,
                "env": {"PYTHONUNBUFFERED": "1"},
                "working_dir": "",
                "readiness_path": readiness_path,
                "start_timeout_s": 600,
            },
        ),
        authority=authority,
        now=now,
    )


def _template(
    *, name: str, description: str, submission: Submission, authority: Authority, now: datetime
) -> None:
    assets.create_asset(
        kind=AssetKind.TEMPLATE,
        draft=assets.AssetDraft(
            name=name,
            description=description,
            definition={"submission": asdict(submission), "scaling": {}},
        ),
        authority=authority,
        now=now,
    )
