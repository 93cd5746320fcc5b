"""What a submission names of assets, resolved: the copies that its workload keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler import models
from scheduler.core.vocabulary import AssetKind
from scheduler.operations import assets
from scheduler.operations.authority import Authority
from scheduler.operations.refused import Problem, StateRefused
from scheduler.operations.submissions import USUAL_START_TIMEOUT_S, Submission

_FIELDS = {
    AssetKind.ENVIRONMENT: "environment",
    AssetKind.SOURCE: "sources",
    AssetKind.CREDENTIAL: "credentials",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A submission with its environment filled in, and the copies to be kept with the workload."""

    submission: Submission
    uses: tuple[models.WorkloadAsset, ...] = ()
    problems: tuple[Problem, ...] = ()


def resolve(*, submission: Submission, project: models.Project, authority: Authority) -> Resolved:
    """Look up what a submission names; what is not usable in the project is as if not there."""
    wanted = [
        *((AssetKind.SOURCE, pk) for pk in dict.fromkeys(submission.source_ids)),
        *((AssetKind.CREDENTIAL, pk) for pk in dict.fromkeys(submission.credential_ids)),
    ]
    if submission.environment_id is not None:
        wanted.append((AssetKind.ENVIRONMENT, submission.environment_id))
    if not wanted:
        return Resolved(submission=submission)
    found = {
        asset.pk: asset
        for asset in models.Asset.objects.select_related("project", "department").filter(
            pk__in=[pk for _kind, pk in wanted], deleted_at=None
        )
    }
    problems: list[Problem] = []
    chosen: list[models.Asset] = []
    for kind, pk in wanted:
        asset = found.get(pk)
        usable = asset is not None and asset.kind == kind and is_usable(asset, project)
        if asset is None or not usable or not assets.sees(authority, asset):
            problems.append(_missing(kind))
        else:
            chosen.append(asset)
    filled = _filled(submission, chosen)
    problems += _same_names(chosen)
    problems += _same_variables(filled, chosen)
    return Resolved(
        submission=filled,
        uses=tuple(_copy(asset) for asset in chosen),
        problems=tuple(problems),
    )


def is_usable(asset: models.Asset, project: models.Project) -> bool:
    """Test whether work of a project may name an asset: it is the project's own, or of above."""
    if asset.project_id is not None:
        return asset.project_id == project.pk
    return asset.department_id in (None, project.department_id)


def renew_secrets(workload: models.Workload) -> None:
    """Have an ended workload that starts again take today's values where its own were erased.

    Raises:
        StateRefused: a credential that it needs is no more.
    """
    erased = workload.assets.filter(secret__sealed=b"").select_related("asset")
    for use in erased:
        credential: models.Asset | None = use.asset
        if use.kind == AssetKind.SOURCE:
            credential = models.Asset.objects.filter(pk=use.definition.get("credential_id")).first()
        if credential is None or credential.deleted_at is not None:
            raise StateRefused(
                [
                    Problem(
                        field="credentials",
                        code="credential_gone",
                        message=f"It needs a credential of {use.name}, which was deleted. Submit it "
                        "anew with another one.",
                        params={"name": use.name},
                    )
                ]
            )
        use.secret_id = credential.secret_id
        use.save(update_fields=["secret"])


def _missing(kind: AssetKind) -> Problem:
    return Problem(
        field=_FIELDS[kind],
        code="no_such_asset",
        message="Choose what may be used in the project: it is there no more, or is another's.",
    )


def _same_names(chosen: Sequence[models.Asset]) -> list[Problem]:
    names = [asset.name for asset in chosen if asset.kind == AssetKind.SOURCE]
    twice = sorted({name for name in names if names.count(name) > 1})
    return [
        Problem(
            field="sources",
            code="same_mount",
            message=f"Two data sources are called {name}: only one of them can lie there.",
            params={"name": name},
        )
        for name in twice
    ]


def _same_variables(submission: Submission, chosen: Sequence[models.Asset]) -> list[Problem]:
    """Return which variables would be set twice: of two secrets nobody could tell which one counts."""
    set_by: dict[str, str] = dict.fromkeys(submission.env, "")
    problems = []
    for asset in chosen:
        for name in asset.definition.get("names", ()) if asset.kind == AssetKind.CREDENTIAL else ():
            if name in set_by:
                problems.append(
                    Problem(
                        field="credentials",
                        code="variable_twice",
                        message=f"{name} would be set twice. Choose one of the two.",
                        params={"name": name},
                    )
                )
            set_by[name] = asset.name
    return problems


def _filled(submission: Submission, chosen: Sequence[models.Asset]) -> Submission:
    """Return the submission with what it leaves open taken from its environment."""
    environment = next((a.definition for a in chosen if a.kind == AssetKind.ENVIRONMENT), None)
    if environment is None:
        return submission
    timeout_s = submission.start_timeout_s
    return replace(
        submission,
        command=list(submission.command) or list(environment.get("command", [])),
        env={**environment.get("env", {}), **submission.env},
        working_dir=submission.working_dir or environment.get("working_dir", ""),
        readiness_path=submission.readiness_path or environment.get("readiness_path", ""),
        start_timeout_s=(
            environment.get("start_timeout_s", timeout_s)
            if timeout_s == USUAL_START_TIMEOUT_S
            else timeout_s
        ),
        environment_id=None,
    )


def _copy(asset: models.Asset) -> models.WorkloadAsset:
    secret_id = asset.secret_id
    if asset.kind == AssetKind.SOURCE and asset.definition.get("credential_id") is not None:
        credential = models.Asset.objects.get(pk=asset.definition["credential_id"])
        secret_id = credential.secret_id
    return models.WorkloadAsset(
        asset=asset,
        kind=asset.kind,
        name=asset.name,
        definition=dict(asset.definition),
        secret_id=secret_id,
    )
