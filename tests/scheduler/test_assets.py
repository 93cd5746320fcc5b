"""Assets: defined once, used where their scope allows it, copied by work, secrets kept secret."""

from __future__ import annotations

import io
import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from django.core import serializers
from django.db import connection

from access.models import AccessRule, User
from access.roles import Role
from access.scopes import authority_of
from scheduler import models
from scheduler.core.vocabulary import AssetKind, Kind
from scheduler.engines.base import EnginePhase
from scheduler.operations import asset_choice, asset_files, assets, secret_box, units, workloads
from scheduler.operations.assets import AssetDraft
from scheduler.operations.authority import SYSTEM, NotPermitted
from scheduler.operations.refused import NotFound, StateRefused, SubmitRefused
from tests.scheduler import places
from tests.scheduler.places import START

pytestmark = pytest.mark.django_db

TREE = {"type": "tree", "digest": "sha256-" + "0" * 64}
SECRET = "pearl-of-the-tide"


def define(kind, name, *, by=SYSTEM, project=None, department=None, secrets=None, **definition):
    return assets.create_asset(
        kind=AssetKind(kind),
        draft=AssetDraft(name=name, definition=definition, secrets=secrets),
        project_id=project.pk if project else None,
        department_id=department.pk if department else None,
        authority=by,
        now=START,
    )


def change(asset, *, by=SYSTEM, secrets=None, **definition):
    fresh = models.Asset.objects.get(pk=asset.pk)
    return assets.change_asset(
        asset_id=fresh.pk,
        version=fresh.version,
        draft=AssetDraft(
            name=fresh.name, definition=definition or fresh.definition, secrets=secrets
        ),
        authority=by,
        now=START,
    )


def delete(asset, *, by=SYSTEM):
    return assets.delete_asset(asset_id=asset.pk, authority=by, now=START)


def someone(role, **scope):
    user = User.objects.create_user(f"{role}-{User.objects.count()}", password="someone-of-tests")
    AccessRule.objects.create(user=user, role=role, cluster=not scope, **scope)
    return authority_of(user=user, door="page")


def fields(refusal):
    return [(problem.field, problem.code) for problem in refusal.value.problems]


BAD = [
    ("source", {"type": "nowhere"}, ("type", "bad_source_type")),
    ("source", {"type": "git", "url": "/etc"}, ("url", "bad_git_url")),
    ("source", {"type": "git", "url": "ext::sh -c true"}, ("url", "bad_git_url")),
    ("source", {"type": "git", "url": "file:///etc"}, ("url", "bad_git_url")),
    ("source", {"type": "git", "url": "https://a:b@host/x"}, ("url", "secret_in_url")),
    (
        "source",
        {"type": "git", "url": "https://host/x", "revision": "--upload-pack=x"},
        ("revision", "bad_revision"),
    ),
    ("source", {"type": "s3", "endpoint": "host", "bucket": "sets"}, ("endpoint", "bad_endpoint")),
    ("source", {"type": "s3", "endpoint": "https://h", "bucket": "A"}, ("bucket", "bad_bucket")),
    ("source", {"type": "tree", "digest": "../x"}, ("upload", "no_files")),
    ("source", {"type": "nfs", "server": "a b", "path": "/x"}, ("server", "bad_server")),
    ("source", {"type": "nfs", "server": "nas", "path": "/x/../.."}, ("path", "bad_host_path")),
    ("source", {"type": "host_path", "path": "x"}, ("path", "bad_host_path")),
    ("environment", {"env": {"TIDEGATE_GPU_MILLI": "9"}}, ("env", "bad_env_name")),
    ("environment", {"working_dir": "../x"}, ("working_dir", "bad_working_dir")),
    ("environment", {"readiness_path": "health"}, ("readiness_path", "bad_path")),
    ("environment", {"start_timeout_s": 0}, ("start_timeout_s", "out_of_range")),
    ("template", {}, ("submission", "empty_template")),
]


@pytest.mark.parametrize(("kind", "definition", "told"), BAD)
def test_a_bad_definition_names_the_field_and_leaves_nothing_behind(kind, definition, told):
    with pytest.raises(SubmitRefused) as refusal:
        define(kind, "mine", **definition)
    assert fields(refusal) == [told]
    assert not models.Asset.objects.exists()


@pytest.mark.parametrize("values", [{}, {"1X": "a"}, {"TOKEN": ""}, {"TIDEGATE_X": "a"}])
def test_a_bad_credential_is_refused_without_saying_its_value(values):
    with pytest.raises(SubmitRefused) as refusal:
        define("credential", "mine", secrets=values)
    assert {problem.field for problem in refusal.value.problems} == {"secrets"}
    assert not models.SealedSecret.objects.exists()


# --- Scopes and rights ----------------------------------------------------------------------------


def test_names_are_used_once_in_a_scope():
    place = places.article()
    unit_a, unit_b = place.projects["unit-a"], place.projects["unit-b"]
    for scope in ({}, {"project": unit_a}, {"project": unit_b}, {"department": unit_a.department}):
        define("source", "digits", **scope, **TREE)
        with pytest.raises(SubmitRefused) as refusal:
            define("source", "digits", **scope, **TREE)
        assert fields(refusal) == [("name", "asset_name_taken")]
    define("environment", "digits")


def test_roles_define_assets_in_their_scope_alone():
    place = places.article()
    unit_a, unit_b = place.projects["unit-a"], place.projects["unit-b"]
    researcher = someone(Role.RESEARCHER, project=unit_a)
    engineer = someone(Role.ML_ENGINEER, project=unit_a)
    head = someone(Role.DEPARTMENT_ADMIN, department=unit_a.department)

    mine = define("source", "digits", by=researcher, project=unit_a, **TREE)
    with pytest.raises(NotPermitted):
        define("source", "more", by=engineer, project=unit_a, **TREE)
    with pytest.raises(NotPermitted):
        define("source", "more", by=researcher, **TREE)
    with pytest.raises(NotFound):
        define("source", "more", by=researcher, project=unit_b, **TREE)
    with pytest.raises(NotFound):
        define("source", "more", by=researcher, department=unit_a.department, **TREE)
    shared = define("source", "more", by=head, department=unit_a.department, **TREE)

    with pytest.raises(NotPermitted):
        change(shared, by=researcher)
    with pytest.raises(NotPermitted):
        delete(mine, by=engineer)
    stranger = someone(Role.RESEARCHER, project=place.projects["prod-training"])
    for act in (change, delete):
        with pytest.raises(NotFound):
            act(shared, by=stranger)
    delete(mine, by=researcher)


def test_paths_of_machines_are_offered_by_system_admins_below_allowed_folders(settings, tmp_path):
    place = places.article()
    project = place.projects["unit-a"]
    researcher = someone(Role.RESEARCHER, project=project)
    path = {"type": "host_path", "path": str(tmp_path / "sets")}
    # Given no allowed folder, then nobody can offer a path
    with pytest.raises(SubmitRefused) as refusal:
        define("source", "sets", **path)
    assert fields(refusal) == [("path", "no_host_paths")]
    # Given one, then a system admin can, below it
    settings.HOST_PATHS = [str(tmp_path)]
    offered = define("source", "sets", project=project, **path)
    for bad, code in (("/etc", "path_not_allowed"), (str(settings.DATA_DIR), "own_files")):
        with pytest.raises(SubmitRefused) as refusal:
            define("source", "other", type="host_path", path=bad)
        assert fields(refusal) == [("path", code)]
    # And nobody else can, nor turn another source into a path, nor a path into something else
    mine = define("source", "mine", by=researcher, project=project, **TREE)
    for act in (
        lambda: define("source", "other", by=researcher, project=project, **path),
        lambda: change(mine, by=researcher, **path),
        lambda: change(offered, by=researcher, **TREE),
        lambda: delete(offered, by=researcher),
    ):
        with pytest.raises(NotPermitted):
            act()


def test_a_link_is_followed_before_a_path_is_allowed(settings, tmp_path):
    settings.HOST_PATHS = [str(tmp_path)]
    (tmp_path / "sets").symlink_to("/etc")
    with pytest.raises(SubmitRefused) as refusal:
        define("source", "sets", type="host_path", path=str(tmp_path / "sets"))
    assert fields(refusal) == [("path", "path_not_allowed")]


def test_a_source_takes_a_credential_that_holds_wherever_it_does():
    place = places.article()
    unit_a = place.projects["unit-a"]
    own = define("credential", "own", project=unit_a, secrets={"PASSWORD": SECRET})
    url = {"type": "git", "url": "https://host/x", "revision": ""}
    define("source", "code", project=unit_a, **url, credential_id=own.pk)
    with pytest.raises(SubmitRefused) as refusal:
        define("source", "code", **url, credential_id=own.pk)
    assert fields(refusal) == [("credential_id", "no_such_credential")]


# --- Work -----------------------------------------------------------------------------------------


def test_work_keeps_the_definition_that_it_was_submitted_with():
    place = places.article()
    environment = define(
        "environment",
        "python",
        command=["python", "train.py"],
        env={"LEVEL": "1", "SIZE": "2"},
        working_dir="code",
        start_timeout_s=90,
    )
    source = define("source", "digits", **TREE)
    # When work names both, and says one variable itself
    train = place.submit(
        "train",
        of="unit-a",
        gpu="0.09",
        command=[],
        env={"SIZE": "3"},
        environment_id=environment.pk,
        source_ids=[source.pk],
    )
    # Then what it leaves open is the environment's
    assert train.command == ["python", "train.py"]
    assert train.env == {"LEVEL": "1", "SIZE": "3"}
    assert (train.working_dir, train.start_timeout_s) == ("code", 90)
    # And a change or the end of an asset touches nothing of it
    change(environment, command=["true"], env={}, working_dir="")
    change(source, type="tree", digest="sha256-" + "1" * 64)
    for asset in (environment, source):
        delete(asset)
    assert place.fresh("train").command == ["python", "train.py"]
    assert train.assets.get(kind="source").definition == TREE
    # And the log says what was named
    entry = models.AuditEntry.objects.get(action="workload.submit")
    assert sorted(entry.after["assets"]) == ["environment python", "source digits"]


def test_what_may_not_be_used_in_a_project_is_not_there():
    place = places.article()
    other = define("source", "digits", project=place.projects["unit-b"], **TREE)
    above = define("source", "sets", department=place.departments["prod"], **TREE)
    environment = define("environment", "python", command=["true"])
    for choice in (
        {"source_ids": [other.pk]},
        {"source_ids": [above.pk]},
        {"source_ids": [environment.pk]},
        {"source_ids": [987_654]},
    ):
        with pytest.raises(SubmitRefused) as refusal:
            place.submit("train", of="unit-a", gpu="0.09", **choice)
        assert fields(refusal) == [("sources", "no_such_asset")]
    assert not models.Workload.objects.exists()


def test_two_things_of_one_name_are_refused():
    place = places.article()
    sources = [
        define("source", "digits", **TREE),
        define("source", "digits", project=place.projects["unit-a"], **TREE),
    ]
    token = define("credential", "token", secrets={"TOKEN": SECRET})
    for choice, told in (
        ({"source_ids": [each.pk for each in sources]}, ("sources", "same_mount")),
        (
            {"credential_ids": [token.pk], "env": {"TOKEN": "x"}},
            ("credentials", "variable_twice"),
        ),
    ):
        with pytest.raises(SubmitRefused) as refusal:
            place.submit("train", of="unit-a", gpu="0.09", **choice)
        assert fields(refusal) == [told]


def test_two_people_do_not_overwrite_each_other():
    source = define("source", "digits", **TREE)
    change(source, **TREE)
    with pytest.raises(StateRefused) as refusal:
        assets.change_asset(
            asset_id=source.pk,
            version=1,
            draft=AssetDraft(name="digits", definition=TREE),
            authority=SYSTEM,
            now=START,
        )
    assert fields(refusal) == [("version", "changed_meanwhile")]


def test_assets_go_with_their_project():
    place = places.article()
    define("source", "digits", project=place.projects["unit-c"], **TREE)
    units.delete_project(project_id=place.projects["unit-c"].pk, authority=SYSTEM, now=START)
    assert not models.Asset.objects.filter(deleted_at=None).exists()


# --- Secrets --------------------------------------------------------------------------------------


def everything_written():
    """All rows of all tables as text."""
    tables = connection.introspection.django_table_names(only_existing=True)
    kept = [m for m in serializers.python.apps.get_models() if m._meta.db_table in tables]
    return "\n".join(serializers.serialize("json", model.objects.all()) for model in kept)


def env_of(ticker, workload):
    (spec,) = [
        replica.spec
        for key, replica in ticker.engine._replicas.items()
        if replica.spec.workload_id == workload.pk and replica.seen.phase is not EnginePhase.EXITED
    ]
    return dict(spec.env)


def test_a_secret_reaches_the_work_and_nothing_that_is_written(ticker):
    place = places.article()
    token = define("credential", "hub", secrets={"HUB_TOKEN": SECRET})
    train = place.submit(
        "train", of="unit-a", gpu="0.09", command=["fake"], credential_ids=[token.pk]
    )
    ticker.settle()
    assert env_of(ticker, train)["HUB_TOKEN"] == SECRET
    assert SECRET not in everything_written()
    assert json.dumps(place.fresh("train").env) == "{}"
    assert token.definition == {"names": ["HUB_TOKEN"]}


def test_running_work_keeps_its_values_until_it_ends(ticker):
    place = places.article()
    token = define("credential", "hub", secrets={"HUB_TOKEN": "old"})
    train = place.submit(
        "train", of="unit-a", gpu="0.09", command=["fake"], credential_ids=[token.pk]
    )
    ticker.settle()
    # When the credential gets new values while work runs
    change(token, secrets={"HUB_TOKEN": "new"})
    old = train.assets.get().secret
    assert secret_box.unseal(sealed=old.sealed) == {"HUB_TOKEN": "old"}
    # When the work has ended, then the old values are erased
    workloads.stop_workload(workload_id=train.pk, authority=SYSTEM, now=START)
    ticker.settle(ticks=6)
    assets.erase_unused_secrets()
    old.refresh_from_db()
    assert bytes(old.sealed) == b""
    # And where it starts again, it has the new ones
    workloads.start_workload(workload_id=train.pk, authority=SYSTEM, now=START)
    ticker.settle()
    assert env_of(ticker, train)["HUB_TOKEN"] == "new"


def test_a_deleted_credential_is_kept_for_the_work_that_has_it(ticker):
    place = places.article()
    token = define("credential", "hub", secrets={"HUB_TOKEN": "old"})
    train = place.submit(
        "train", of="unit-a", gpu="0.09", command=["fake"], credential_ids=[token.pk]
    )
    delete(token)
    ticker.settle()
    assert env_of(ticker, train)["HUB_TOKEN"] == "old"
    workloads.stop_workload(workload_id=train.pk, authority=SYSTEM, now=START)
    ticker.settle(ticks=6)
    assets.erase_unused_secrets()
    assert [bytes(secret.sealed) for secret in models.SealedSecret.objects.all()] == [b""]


def test_a_credential_is_not_taken_from_a_source_that_needs_it():
    password = define("credential", "hub", secrets={"PASSWORD": SECRET})
    code = define(
        "source", "code", type="git", url="https://host/x", revision="", credential_id=password.pk
    )
    with pytest.raises(StateRefused) as refusal:
        delete(password)
    assert fields(refusal) == [("name", "credential_needed")]
    delete(code)
    delete(password)


def test_ended_work_does_not_start_without_its_credential(ticker):
    place = places.article()
    token = define("credential", "hub", secrets={"HUB_TOKEN": "old"})
    train = place.submit(
        "train", of="unit-a", gpu="0.09", command=["fake"], credential_ids=[token.pk]
    )
    workloads.stop_workload(workload_id=train.pk, authority=SYSTEM, now=START)
    delete(token)
    with pytest.raises(StateRefused) as refusal:
        workloads.start_workload(workload_id=train.pk, authority=SYSTEM, now=START)
    assert fields(refusal) == [("credentials", "credential_gone")]


def test_a_key_is_changed_by_putting_a_new_one_first(settings):
    settings.CREDENTIALS_KEYS = ["old" * 12]
    sealed = secret_box.seal(values={"TOKEN": SECRET})
    assert SECRET.encode() not in sealed
    settings.CREDENTIALS_KEYS = ["new" * 12, "old" * 12]
    assert secret_box.unseal(sealed=sealed) == {"TOKEN": SECRET}
    settings.CREDENTIALS_KEYS = ["new" * 12]
    with pytest.raises(secret_box.SecretUnreadable):
        secret_box.unseal(sealed=sealed)


def test_work_whose_credential_no_key_opens_says_so(ticker, settings):
    place = places.article()
    token = define("credential", "hub", secrets={"HUB_TOKEN": SECRET})
    settings.CREDENTIALS_KEYS = ["other" * 8]
    train = place.submit(
        "train",
        of="unit-a",
        gpu="0.09",
        command=["fake"],
        credential_ids=[token.pk],
        max_attempts=1,
    )
    ticker.settle(ticks=4)
    assert "can't be read" in place.fresh("train").failure["message"]
    assert models.Workload.objects.get(pk=train.pk).phase == "failed"


def test_an_asset_of_above_is_usable_below():
    place = places.article()
    unit_a = place.projects["unit-a"]
    for scope in ({}, {"department": unit_a.department}, {"project": unit_a}):
        assert asset_choice.is_usable(define("source", "sets", **scope, **TREE), unit_a)
    service = place.submit("x", of="dev-chat", gpu="0.1", kind=Kind.INFERENCE)
    assert service.assets.count() == 0


def test_uploaded_files_go_a_day_after_nothing_speaks_of_them(settings):
    def keep(text):
        return asset_files.keep_files(files=[("a.txt", io.BytesIO(text))]).name

    place = places.article()
    store = settings.WORKLOADS_DIR / "store" / "trees"
    offered, used, forgotten, fresh = (keep(each) for each in (b"1", b"2", b"3", b"4"))
    define("source", "offered", type="tree", digest=offered)
    source = define("source", "used", type="tree", digest=used)
    place.submit("train", of="unit-a", gpu="0.09", source_ids=[source.pk])
    delete(source)
    now = datetime.now(tz=UTC)
    for name in (offered, used, forgotten):
        os.utime(store / name, ((now - timedelta(days=2)).timestamp(),) * 2)
    asset_files.sweep(now=now)
    assert not (store / forgotten).exists()
    assert all((store / name).exists() for name in (offered, used, fresh))
    # And what is uploaded anew counts from then
    os.utime(store / offered, ((now - timedelta(days=2)).timestamp(),) * 2)
    assert keep(b"1") == offered
    assert (store / offered).stat().st_mtime > (now - timedelta(hours=1)).timestamp()
