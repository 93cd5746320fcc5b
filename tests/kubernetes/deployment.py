"""What ``deploy/kubernetes`` holds, as its objects."""

from __future__ import annotations

from typing import Any

import yaml

from tests.product import ROOT

DEPLOY = ROOT / "deploy" / "kubernetes"


def objects() -> list[dict[str, Any]]:
    """Return all objects that the kustomization names."""
    names = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    return [one for name in names for one in yaml.safe_load_all((DEPLOY / name).read_text())]
