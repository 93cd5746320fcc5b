"""What a demonstration defines of assets: one data source, one environment and one template to look at."""

from __future__ import annotations

import io
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from django.conf import settings

from scheduler.core.vocabulary import AssetKind, Kind
from scheduler.operations import asset_files, assets
from scheduler.operations.authority import Authority
from scheduler.operations.submissions import Submission

SOURCE, ENVIRONMENT, TEMPLATE = "examples", "digits", "train-digits"


def define(*, authority: Authority, now: datetime) -> None:
    """Define the product's example programs as a data source, and how a training of them is run."""
    folder = Path(settings.BASE_DIR) / "examples"
    files = [
        (str(path.relative_to(folder)), io.BytesIO(path.read_bytes()))
        for path in sorted(folder.rglob("*.py"))
    ]
    tree = asset_files.keep_files(files=files)
    source = assets.create_asset(
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
    environment = assets.create_asset(
        kind=AssetKind.ENVIRONMENT,
        draft=assets.AssetDraft(
            name=ENVIRONMENT,
            description="Trains a classifier of handwritten digits from the data source",
            definition={
                "command": ["python", f"{SOURCE}/training/train_digits.py", "--epochs", "300"],
                "env": {"PYTHONUNBUFFERED": "1"},
                "working_dir": "",
                "readiness_path": "",
                "start_timeout_s": 600,
            },
        ),
        authority=authority,
        now=now,
    )
    submission = Submission(
        name="",
        kind=Kind.TRAINING,
        command=[],
        request_mgpu=90,
        environment_id=environment.pk,
        source_ids=[source.pk],
    )
    assets.create_asset(
        kind=AssetKind.TEMPLATE,
        draft=assets.AssetDraft(
            name=TEMPLATE,
            description="A training of 0.09 of a GPU; only a name is missing",
            definition={"submission": asdict(submission), "scaling": {}},
        ),
        authority=authority,
        now=now,
    )
