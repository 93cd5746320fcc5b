"""Every object that is asked of Kubernetes, held against its schemas; and the rights against the calls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.engines.base import DeviceGrant, Gang
from scheduler.kubernetes import manifest
from scheduler.kubernetes.terms import Sharing, Terms
from tests.engines.harness import service, spec
from tests.kubernetes.deployment import DEPLOY, objects
from tests.test_docs import ROOT, VARIABLE

GRANT = DeviceGrant(index=0, uuid="GPU-1", request_mgpu=1000, memory_mib=46_068, virtual=False)


def check(one: dict) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is missing")
    validator.validate(one, validator.latest_version(), strict=True)


@pytest.mark.parametrize("one", objects(), ids=lambda o: f"{o['kind']}-{o['metadata']['name']}")
def test_objects_of_the_deployment_hold(one):
    check(one)


@pytest.mark.parametrize("sharing", list(Sharing))
def test_pods_and_secrets_of_work_hold(sharing):
    terms = Terms(
        owner="0000", namespace="work", image="i", folder=Path("/none"), sharing=sharing, claim="c"
    )
    gang = Gang(rank=0, world_size=2, master_addr="", master_port=29_500)
    wanted = spec(
        ("sh", "-c", "exec serve $PORT"),
        node_name="n1",
        devices=(GRANT,),
        env=(("TOKEN", "x"),),
        gang=gang,
        service=service(),
    )
    check(manifest.make_pod(wanted, terms=terms, pool_name="main"))
    secret = manifest.make_secret(wanted, terms=terms, pod_uid="1")
    assert secret is not None
    check(secret)


def test_what_is_misspelt_does_not_hold():
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is missing")
    pod = manifest.make_pod(
        spec(("true",)),
        terms=Terms(owner="o", namespace="w", image="i", folder=Path("/none")),
        pool_name="",
    )
    pod["spec"]["containers"][0]["imagee"] = "i"
    with pytest.raises(validator.ValidationError):
        check(pod)


def test_rights_are_those_of_the_calls_and_no_more():
    # Given the calls that the engine makes, by its own source
    files = sorted((ROOT / "scheduler" / "kubernetes").glob("*.py"))
    source = "".join(file.read_text() for file in files)
    methods = set(re.findall(r'_api\.call\(\s*"([A-Z]+)"', source))
    assert methods == {"GET", "POST", "PATCH", "DELETE"}

    # Then these rights are granted, and none beside them
    rules = [
        (kind["kind"], rule["resources"], rule["verbs"])
        for kind in objects()
        if kind["kind"] in ("Role", "ClusterRole")
        for rule in kind["rules"]
    ]
    assert rules == [
        ("Role", ["pods"], ["get", "list", "watch", "create", "patch", "delete"]),
        ("Role", ["pods/log"], ["get"]),
        ("Role", ["secrets"], ["create"]),
        ("ClusterRole", ["nodes"], ["list", "watch"]),
    ]


def test_the_environment_names_only_settings_that_are_there():
    known = set(VARIABLE.findall((ROOT / "docs" / "settings.md").read_text()))
    assert set(VARIABLE.findall((DEPLOY / "tidegate.env").read_text())) <= known
