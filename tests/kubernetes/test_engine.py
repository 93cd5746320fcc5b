"""The Kubernetes engine over a stand-in of the API server: watches, evictions, lost nodes, restarts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from scheduler.checks import check_kubernetes
from scheduler.core.vocabulary import SourceType
from scheduler.engines import logs
from scheduler.engines.base import (
    DeviceGrant,
    EndCause,
    EnginePhase,
    EngineUnreachable,
    Gang,
    LaunchRefused,
    Mount,
    ReplicaKey,
    Standing,
)
from scheduler.kubernetes import manifest, mirror, nodes, outputs, reading, terms
from scheduler.kubernetes.output import Keeper, read_time
from scheduler.kubernetes.terms import BadTerms, Sharing, read_terms
from tests.engines.harness import find, launch, spec, wait_ended, wait_for, wait_log
from tests.kubernetes.harness import NAMESPACE, KubernetesHarness, kubernetes, wait_until

KEY = ReplicaKey(1, 1)


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.kubernetes)])
def pods(tmp_path: Path, request: pytest.FixtureRequest):
    pytest.importorskip("kubernetes", reason="the Kubernetes client is not installed")
    is_real = request.param == "real"
    server = request.getfixturevalue("api_server") if is_real else None
    with kubernetes(tmp_path, server) as given:
        yield given


def is_running(seen) -> bool:
    return seen.phase is EnginePhase.RUNNING


def real(mgpu: int = 1000, uuid: str = "GPU-1", index: int = 0) -> DeviceGrant:
    return DeviceGrant(
        index=index, uuid=uuid, request_mgpu=mgpu, memory_mib=mgpu * 46, virtual=False
    )


def bare(**more) -> terms.Terms:
    return terms.Terms(owner="o", namespace=NAMESPACE, image="i", folder=Path("/none"), **more)


# -- watching ----------------------------------------------------------------------------------------


def test_a_watch_goes_on_where_it_was_and_lists_anew_only_where_it_must(pods: KubernetesHarness):
    # Given a running replica, known by one list and a watch
    launch(pods, spec(pods.runs_on()))
    wait_for(pods, KEY, is_running)
    assert pods.engine._pods.lists == 1

    # When the server forgets its history, and the replica ends after that
    pods.cluster.forget_history()
    wait_until(lambda: pods.engine._pods.lists == 2, what="a second list")
    pods.engine.terminate(KEY, grace_s=5, reason="by_user")

    # Then it was listed once more, and its end is seen
    assert wait_ended(pods, KEY).cause is EndCause.TERMINATED
    assert pods.engine._pods.lists == 2


def test_a_server_that_is_away_tells_nothing_and_is_found_again(pods: KubernetesHarness):
    launch(pods, spec(pods.runs_on()))
    wait_for(pods, KEY, is_running)
    pods.cluster.is_down = True

    def is_unreachable() -> bool:
        try:
            pods.engine.observe()
        except EngineUnreachable:
            return True
        return False

    wait_until(is_unreachable, what="that nothing is known")
    pods.cluster.is_down = False
    wait_until(lambda: not is_unreachable(), what="that it answers again")
    assert wait_for(pods, KEY, is_running).cause is None


def test_a_server_that_is_away_from_the_first_keeps_nobody_waiting(
    pods: KubernetesHarness, monkeypatch
):
    monkeypatch.setattr(mirror, "FIRST_LIST_S", None)  # for ever
    pods.cluster.is_down = True
    pods.restart()
    with pytest.raises(EngineUnreachable, match="Kubernetes does not answer"):
        pods.engine.observe()


def test_many_pods_come_in_pages(pods: KubernetesHarness, monkeypatch):
    monkeypatch.setattr(mirror, "PAGE", 2)
    for replica in range(1, 6):
        launch(pods, spec(pods.exits(0), replica=replica))
    pods.restart()
    assert len(pods.engine.observe()) == 5


# -- launching ---------------------------------------------------------------------------------------


def test_nothing_that_a_user_gave_stands_in_the_pod(pods: KubernetesHarness):
    # Given a replica with a secret in its environment
    wanted = spec(
        ("sh", "-c", "echo got $PASSWORD of $(echo shell); exec sleep 600"),
        env=(("PASSWORD", "mellon"),),
        progress_url="http://here/progress",
        progress_token="token-7",
    )
    launch(pods, wanted)

    # Then it gets it, and neither that nor its token can be read from its pod
    wait_log(pods, KEY, "got mellon of shell")
    told = json.dumps(pods.pod(KEY))
    assert "mellon" not in told
    assert "token-7" not in told

    # And its secret goes together with the pod
    secret = f"namespaces/{NAMESPACE}/secrets/{pods.terms.pod_name(KEY)}"
    (owner,) = pods.cluster.get(secret)["metadata"]["ownerReferences"]
    assert owner["uid"] == pods.pod(KEY)["metadata"]["uid"]
    pods.engine.terminate(KEY, grace_s=5, reason="by_user")
    wait_ended(pods, KEY)
    pods.engine.forget(KEY)
    assert not pods.cluster.has(pods.pod_path(KEY))
    assert pods.cluster.has(secret) != pods.cluster.removes_dependents


def test_a_launch_that_broke_off_between_pod_and_secret_is_completed(pods: KubernetesHarness):
    # Given a pod whose secret was never made
    wanted = spec(("sh", "-c", "echo got $WORD; exec sleep 600"), env=(("WORD", "friend"),))
    launch(pods, wanted)
    pods.cluster.delete(f"namespaces/{NAMESPACE}/secrets/{pods.terms.pod_name(KEY)}", {})

    # When it is launched again by another control plane
    pods.restart()
    launch(pods, wanted)

    # Then it runs, once
    wait_log(pods, KEY, "got friend")
    assert len(pods.engine.observe()) == 1


def test_marks_and_progress_are_read_from_the_output_once(pods: KubernetesHarness):
    # Given a replica that marks a checkpoint and reports progress
    lines = (
        'TIDEGATE {"checkpoint": true, "step": 21, "best": 0.8223}',
        'TIDEGATE {"progress": true, "step": 21, "total": 90}',
    )
    script = "; ".join(f"echo '{line}'" for line in lines)
    launch(pods, spec(("sh", "-c", f"{script}; exec sleep 600")))

    # When they are seen, and a new control plane looks again
    wait_for(pods, KEY, lambda seen: seen.checkpoint_count == 1)
    pods.restart()
    wait_log(pods, KEY, '"total": 90')
    seen = wait_for(pods, KEY, is_running)

    # Then each counts once
    assert seen.checkpoint_count == 1
    assert seen.checkpoint.step == 21
    assert str(seen.checkpoint.best) == "0.8223"
    assert [report.step for report in pods.engine.read_progress(KEY, after=0)] == [21]
    text = pods.engine.read_log(KEY, offset=0, limit_bytes=4096).text
    assert text.count('"checkpoint"') == 1


def test_lines_that_lie_behind_a_later_one_are_taken_too_and_once(tmp_path: Path):
    # Given output in which a line of the errors lies behind one that is later
    lines = [
        b"2026-12-01T00:00:01.000000002Z second",
        b"2026-12-01T00:00:01.000000001Z first",
        b"2026-12-01T00:00:01.000000002Z same",
    ]
    keeper = Keeper(tmp_path / "1-1")

    def take(count: int) -> None:
        keeper.catch_up(lambda _: iter([b"\n".join(lines[:count]) + b"\n"]), limit_mib=1)

    # When it is taken, and again when there is more
    take(3)
    lines.append(b"2026-12-01T00:00:02Z last")
    take(4)
    take(4)

    # Then each line is there once
    kept = logs.read_chunk(directory=keeper.folder, offset=0, limit_bytes=1024)
    assert kept.text.split() == ["second", "first", "same", "last"]


# -- ends that are not the work's --------------------------------------------------------------------


def test_an_evicted_pod_is_lost_and_not_failed(pods: KubernetesHarness):
    launch(pods, spec(pods.runs_on()))
    wait_for(pods, KEY, is_running)
    pods.cluster.evict(pods.pod_path(KEY))
    seen = wait_ended(pods, KEY)
    assert (seen.phase, seen.cause) == (EnginePhase.LOST, EndCause.LOST)
    assert "from outside" in seen.message


def test_a_deleted_pod_stays_until_its_end_is_recorded(pods: KubernetesHarness):
    # Given a replica that has ended by itself, and whose pod somebody deletes
    launch(pods, spec(pods.exits(3)))
    wait_ended(pods, KEY)
    pods.cluster.delete(pods.pod_path(KEY), {})

    # Then its end can still be read, until it is forgotten
    assert wait_ended(pods, KEY).exit_code == 3
    pods.engine.forget(KEY)
    assert pods.cluster.names(f"namespaces/{NAMESPACE}/pods") == []


def test_a_pod_that_is_deleted_by_force_is_not_over_while_its_process_runs(
    pods: KubernetesHarness,
):
    # Given a running replica, whose kubelet does not hear that somebody deletes it by force
    launch(pods, spec(pods.runs_on()))
    wait_for(pods, KEY, is_running)
    pods.kubelets["n2"].cut_off = True
    pods.cluster.delete(pods.pod_path(KEY), {"gracePeriodSeconds": 0})

    # Then it is ending, and its devices are not free, until its kubelet has ended it
    seen = wait_for(pods, KEY, lambda seen: seen.phase is not EnginePhase.RUNNING)
    assert (seen.phase, seen.ended_at) == (EnginePhase.STOPPING, None)
    pods.kubelets["n2"].cut_off = False
    assert wait_ended(pods, KEY).phase is EnginePhase.LOST


def test_an_end_is_told_although_the_output_can_t_be_had_any_more(
    pods: KubernetesHarness, monkeypatch
):
    # Given a replica that has ended by itself, on a node that gives no output any more
    monkeypatch.setattr(outputs, "_DRAIN_PATIENCE_S", 0.5)
    del pods.cluster.read_output["n2"]
    launch(pods, spec(pods.exits(3)))

    # Then it is asked for again for a while, and its end is told
    assert wait_ended(pods, KEY).exit_code == 3
    assert pods.cluster.log_asks > 1


# -- nodes -------------------------------------------------------------------------------------------


def test_a_node_that_is_not_heard_of_is_silent_and_gone_when_somebody_says_so(
    pods: KubernetesHarness,
):
    # Given a replica on a node that Kubernetes no longer hears of
    launch(pods, spec(pods.runs_on()))
    wait_for(pods, KEY, is_running)
    pods.kubelets["n2"].cut_off = True
    pods.kubelets["n2"].say_ready("Unknown")

    # Then the node is silent, however long, and nothing is told of what it runs
    wait_until(
        lambda: not pods.engine.observe() and pods.engine.standing("n2") is Standing.SILENT,
        what="silence",
    )
    assert [node.name for node in pods.engine.joined_nodes()] == ["n1"]

    # When an administrator says that the machine is off
    taint = {"key": nodes.OUT_OF_SERVICE, "effect": "NoExecute"}
    pods.cluster.patch("nodes/n2", {"spec": {"taints": [taint]}})

    # Then its work is lost since it was not heard of any more, and can be cleared
    seen = wait_ended(pods, KEY)
    assert (seen.phase, seen.cause) == (EnginePhase.LOST, EndCause.LOST)
    (ready,) = pods.cluster.get("nodes/n2")["status"]["conditions"]
    assert seen.ended_at == reading.at(ready["lastTransitionTime"])
    pods.engine.forget(KEY)
    wait_until(lambda: find(pods, KEY) is None, what="that it is cleared")


def test_a_node_that_was_deleted_is_gone_after_a_while_and_its_work_since_then(
    pods: KubernetesHarness,
):
    # Given a replica on a node that somebody removes from the cluster
    launch(pods, spec(pods.runs_on()))
    wait_for(pods, KEY, is_running)
    clock = [1000.0]
    pods.engine._monotonic = lambda: clock[0]
    pods.kubelets["n2"].cut_off = True
    pods.cluster.delete("nodes/n2", {})
    wait_until(lambda: not pods.engine.observe(), what="silence")
    missed_at = datetime.now(UTC)

    # When it has been away for two minutes
    clock[0] += 120
    now = datetime.now(UTC)

    # Then its work is lost since two minutes, or since its start where that was later
    pods.engine.observe()
    (seen,) = pods.engine.observe()
    assert (seen.phase, seen.cause) == (EnginePhase.LOST, EndCause.LOST)
    assert seen.started_at <= seen.ended_at <= missed_at < now


def test_a_silent_node_is_gone_after_the_time_that_was_set(pods: KubernetesHarness):
    # Given an engine that gives a silent node up after a minute
    clock = [1000.0]
    pods.engine._terms = replace(pods.terms, gone_after_s=60)
    pods.engine._monotonic = lambda: clock[0]
    pods.kubelets["n2"].say_ready("Unknown")
    wait_until(
        lambda: pods.engine.observe() == () and pods.engine.standing("n2") is Standing.SILENT,
        what="silence",
    )

    # Then it does so then, and takes it back when the node is back
    clock[0] += 61
    assert pods.engine.standing("n2") is Standing.GONE
    pods.kubelets["n2"].say_ready("True")
    wait_until(
        lambda: pods.engine.observe() == () and pods.engine.standing("n2") is Standing.ANSWERS,
        what="an answer",
    )


def test_a_copy_of_a_pod_is_an_orphan_and_is_ended(pods: KubernetesHarness):
    # Given a copy of a running replica's pod under another name
    launch(pods, spec(pods.runs_on()))
    wait_for(pods, KEY, is_running)
    copy = pods.pod(KEY)
    copy["metadata"]["name"] = "a-copy"
    del copy["metadata"]["resourceVersion"], copy["metadata"]["uid"]
    pods.cluster.create(f"namespaces/{NAMESPACE}/pods", copy)

    # Then it is no second replica, but found as an orphan and ended
    wait_until(lambda: len(pods.engine.orphans()) == 1, what="the orphan")
    assert len(pods.engine.observe()) == 1
    (orphan,) = pods.engine.orphans()
    pods.engine.end_orphan(orphan)
    wait_until(lambda: pods.engine.orphans() == (), what="its end")
    assert is_running(find(pods, KEY))


# -- what is asked of Kubernetes ---------------------------------------------------------------------


def test_whole_devices_are_asked_for_as_such_and_parts_are_refused():
    pod = manifest.make_pod(
        spec(("true",), node_name="n1", devices=(real(), real(uuid="GPU-2", index=1))),
        terms=bare(),
        pool_name="main",
    )
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert pod["spec"]["nodeName"] == "n1"
    with pytest.raises(LaunchRefused, match="whole GPUs only"):
        manifest.make_pod(spec(("true",), devices=(real(90),)), terms=bare(), pool_name="main")


def test_hami_gets_share_and_device_and_no_choice_of_node():
    given = bare(sharing_by_pool={"infer": Sharing.HAMI})
    pod = manifest.make_pod(
        spec(("true",), node_name="n1", devices=(real(250),)), terms=given, pool_name="infer"
    )
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem-percentage": "25",
        "nvidia.com/gpucores": "25",
    }
    assert pod["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] == "GPU-1"
    assert "nodeName" not in pod["spec"]
    assert '"values": ["n1"]' in json.dumps(pod["spec"]["affinity"])


def test_with_turns_on_a_device_a_share_of_the_slice_is_one_of_the_card():
    pod = manifest.make_pod(
        spec(("serve", "{slice:0.9}", "{port}"), devices=(real(250),)),
        terms=bare(sharing=Sharing.TIME_SLICING, time_sliced_resource="nvidia.com/gpu.shared"),
        pool_name="main",
    )
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["serve", "0.225", "8080"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu.shared": "1"}


def test_members_of_a_gang_know_the_first_by_name():
    gang = Gang(rank=1, world_size=2, master_addr="x", master_port=29_500)
    pod = manifest.make_pod(spec(("true",), gang=gang), terms=bare(), pool_name="main")
    (container,) = pod["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["MASTER_ADDR"] == f"w1-a1-r0.tidegate-work.{NAMESPACE}.svc"
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_PORT"]) == ("1", "2", "29500")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("w1-a1-r1", "tidegate-work")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"working_dir": "../other"}, "leads out of the workload's folder"),
        ({"storage_key": "../other"}, "can't name a directory"),
        ({"env": (("A B", "1"),)}, "environment variable named 'A B'"),
        (
            {"mounts": (Mount(name="m", source=SourceType.GIT),)},
            "fetched by its node's engine, which pods have not",
        ),
        (
            {
                "mounts": (
                    Mount(
                        name="m",
                        source=SourceType.HOST_PATH,
                        about=(("path", "/data/../etc"),),
                        within=("/data",),
                    ),
                )
            },
            "leads out of the folders",
        ),
    ],
)
def test_what_can_never_run_is_refused_in_words(given, says):
    with pytest.raises(LaunchRefused, match=says):
        manifest.make_pod(spec(("true",), **given), terms=bare(), pool_name="main")


def test_devices_that_hami_registered_are_known_by_their_identifiers():
    told = [
        {"id": "GPU-a", "devmem": 46068, "type": "NVIDIA-NVIDIA L40S", "health": True, "index": 0},
        {"id": "GPU-b", "devmem": 46068, "type": "NVIDIA-NVIDIA L40S", "health": False, "index": 1},
    ]
    node = {
        "metadata": {"name": "n1", "annotations": {nodes.HAMI_DEVICES: json.dumps(told)}},
        "status": {"capacity": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "20"}},
    }
    found = nodes.inventory(node)
    assert [(d.uuid, d.model, d.memory_mib) for d in found.devices] == [
        ("GPU-a", "NVIDIA L40S", 46068)
    ]
    assert (found.cpu_milli, found.memory_mib) == (8000, 32768)


def test_time_sliced_devices_are_counted_as_they_are():
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-L40S-SHARED",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "10",
        "nvidia.com/gpu.memory": "46068",
    }
    node = {
        "metadata": {"name": "n1", "labels": labels},
        "status": {"capacity": {"cpu": "7910m", "memory": "1", "nvidia.com/gpu.shared": "20"}},
    }
    found = nodes.inventory(node)
    assert [(d.index, d.model) for d in found.devices] == [(0, "NVIDIA-L40S"), (1, "NVIDIA-L40S")]
    assert found.cpu_milli == 7910


def test_times_of_any_zone_are_read_exactly():
    assert read_time(b"2026-12-01T00:00:00.123456789Z") == (1796083200, 123456789)
    assert read_time(b"2026-12-01T08:00:00.5+08:00") == (1796083200, 500000000)
    assert read_time(b"2026-12-01T00:00:00Z") == (1796083200, 0)
    assert read_time(b"epoch") is None


class _Given:
    KUBERNETES_CONFIG = ""
    KUBERNETES_CONTEXT = ""
    KUBERNETES_NAMESPACE = "work"
    KUBERNETES_IMAGE = "image"
    KUBERNETES_SHARING = ("whole", "infer=hami")
    KUBERNETES_TIME_SLICED_RESOURCE = "nvidia.com/gpu"
    KUBERNETES_VOLUME_CLAIM = ""
    KUBERNETES_SHARED = ""
    KUBERNETES_GONE_AFTER_S = 0


def test_settings_say_how_each_pool_is_shared():
    found = read_terms(_Given(), owner="o", folder=Path("/none"))
    assert found.sharing_of("main") is Sharing.WHOLE
    assert found.sharing_of("infer") is Sharing.HAMI


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("NAMESPACE", "Not One", "TIDEGATE_KUBERNETES_NAMESPACE is 'Not One'"),
        ("IMAGE", "", "set TIDEGATE_KUBERNETES_IMAGE"),
        ("SHARING", ("mig",), "TIDEGATE_KUBERNETES_SHARING holds 'mig'"),
        ("SHARED", "/mnt", "TIDEGATE_KUBERNETES_SHARED is set without"),
        ("TIME_SLICED_RESOURCE", "gpu", "TIDEGATE_KUBERNETES_TIME_SLICED_RESOURCE is 'gpu'"),
        ("CONFIG", "/none/config", "TIDEGATE_KUBERNETES_CONFIG is '/none/config', and there is no"),
        ("CONTEXT", "lab", "TIDEGATE_KUBERNETES_CONTEXT is set without"),
    ],
)
def test_settings_that_can_t_be_used_are_named(name, value, says):
    given = _Given()
    setattr(given, f"KUBERNETES_{name}", value)
    with pytest.raises(BadTerms, match=says):
        read_terms(given, owner="o", folder=Path("/none"))


def test_bad_settings_are_refused_at_the_start(settings):
    settings.KUBERNETES_IMAGE = ""
    settings.KUBERNETES_SHARING = ["mig"]
    assert check_kubernetes(None) == []  # nobody asked for Kubernetes
    settings.KUBERNETES_IMAGE = "image"
    with pytest.raises(SystemCheckError, match="TIDEGATE_KUBERNETES_SHARING holds 'mig'"):
        call_command("check")
