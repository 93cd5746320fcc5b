"""What a workload keeps of assets, as its engine gets it: mounts, and variables with secrets in them."""

from __future__ import annotations

from scheduler import models
from scheduler.core.vocabulary import AssetKind, SourceType
from scheduler.engines.base import LaunchRefused, Mount
from scheduler.operations import secret_box
from scheduler.operations.asset_definitions import SOURCE_FIELDS
from scheduler.operations.asset_paths import allowed_folders, find_path_problems

Pairs = tuple[tuple[str, str], ...]


def of(workload: models.Workload) -> tuple[tuple[Mount, ...], Pairs]:
    """Return a workload's mounts and its environment. Secrets are opened here and nowhere kept.

    Raises:
        LaunchRefused: a credential can't be opened, or a path is no longer allowed.
    """
    env = dict(workload.env)
    mounts = []
    for use in workload.assets.select_related("secret").order_by("kind", "name"):
        match AssetKind(use.kind):
            case AssetKind.SOURCE:
                mounts.append(_mount(use))
            case AssetKind.CREDENTIAL:
                env.update(_open(use))
            case AssetKind.ENVIRONMENT | AssetKind.TEMPLATE:
                pass  # filled in when it was submitted
    return tuple(mounts), tuple(sorted(env.items()))


def _mount(use: models.WorkloadAsset) -> Mount:
    source = SourceType(use.definition["type"])
    problems = find_path_problems(use.definition)
    if problems:
        raise LaunchRefused(f"the data source {use.name}: {problems[0].message}")
    return Mount(
        name=use.name,
        source=source,
        about=tuple((key, str(use.definition.get(key, ""))) for key in SOURCE_FIELDS[source]),
        secrets=tuple(_open(use).items()),
        within=allowed_folders() if source is SourceType.HOST_PATH else (),
    )


def _open(use: models.WorkloadAsset) -> dict[str, str]:
    if use.secret is None:
        return {}
    if not use.secret.sealed:
        raise LaunchRefused(
            f"the values of the credential for {use.name} were erased: start the workload again"
        )
    try:
        return secret_box.unseal(sealed=bytes(use.secret.sealed))
    except secret_box.SecretUnreadable as error:
        raise LaunchRefused(
            f"the credential for {use.name} can't be read: the key that sealed it is not among "
            "TIDEGATE_CREDENTIALS_KEYS. Give the credential its values again."
        ) from error
