"""The pages of assets, the submit form's part of them, and the processes of a GPU."""

from __future__ import annotations

import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from access.models import AccessRule
from access.roles import Role
from scheduler import models
from scheduler.core.vocabulary import AssetKind
from scheduler.operations import assets, secret_box
from scheduler.operations.authority import SYSTEM
from tests.dashboard.conftest import person

pytestmark = pytest.mark.django_db

SECRET = "pearl-of-the-tide"
GIT = {"type": "git", "url": "https://git.example.org/x", "revision": ""}
SERVICE = {
    "name": "chat",
    "kind": "inference",
    "gpu": "0.10",
    "min_replicas": "1",
    "max_replicas": "1",
    "threshold": "2",
    "grace_s": "30",
    "engine": "vllm",
    "model": "weights/tiny",
}


def project(name="nlp-lab"):
    return models.Project.objects.get(name=name)


def define(kind, name, *, of="nlp-lab", secrets=None, **definition):
    return assets.create_asset(
        kind=AssetKind(kind),
        draft=assets.AssetDraft(name=name, definition=definition, secrets=secrets),
        project_id=project(of).pk if of else None,
        authority=SYSTEM,
        now=timezone.now(),
    )


def get(client, name, *args, **query):
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def post_new(client, kind, **fields):
    address = reverse("asset_new") + f"?kind={kind}"
    return client.post(address, {"scope": f"project-{project().pk}", **fields})


@pytest.fixture
def lin(client, researcher):
    """A researcher of nlp-lab, signed in."""
    client.force_login(researcher)
    return client


# --- Lists and forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(AssetKind))
def test_an_empty_list_says_what_is_for_it_and_the_next_step(lin, kind):
    page = get(lin, "assets", kind=kind)
    assert "yet." in page
    assert "New from a submission" in page if kind == "template" else "Define one" in page


def test_who_may_not_define_sees_that(client, scene):
    source = define("source", "code", **GIT)
    client.force_login(person("wu", Role.ML_ENGINEER, project="nlp-lab"))
    for page in (get(client, "assets"), get(client, "asset", source.pk)):
        assert "View only" in page
        assert "Define one" not in page
    assert client.get(reverse("asset_new")).status_code == 404
    assert client.post(reverse("asset_delete", args=[source.pk])).status_code == 302
    assert models.Asset.objects.get(pk=source.pk).deleted_at is None


def test_a_source_is_defined_changed_and_deleted(lin):
    answer = post_new(lin, "source", name="code", type="git", url="git.example.org")
    assert "begins with https://" in answer.content.decode()
    assert 'value="git.example.org"' in answer.content.decode()
    answer = post_new(lin, "source", name="code", **GIT)
    made = models.Asset.objects.get()
    assert answer.url == reverse("asset", args=[made.pk])
    assert "git.example.org/x" in get(lin, "asset", made.pk)
    # When it is changed from what was read, then it is; from something older, it is not
    for revision, version in (("main", 1), ("next", 1)):
        answer = lin.post(
            reverse("asset", args=[made.pk]),
            {"name": "code", "version": version, **GIT, "revision": revision},
        )
    assert "has changed code since" in answer.content.decode()
    assert models.Asset.objects.get().definition["revision"] == "main"
    lin.post(reverse("asset_delete", args=[made.pk]))
    assert lin.get(reverse("asset", args=[made.pk])).status_code == 404
    actions = models.AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(actions) == ["asset.create", "asset.change", "asset.delete"]


def archive(**files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, text in files.items():
            file.writestr(name.replace("__", "/"), text)
    return SimpleUploadedFile("weights.zip", data.getvalue())


def test_files_are_uploaded_once_and_kept_on_a_change(lin, settings):
    post_new(lin, "source", name="weights", type="tree", upload=archive(a="1", deep__b="2"))
    made = models.Asset.objects.get()
    assert (made.definition["files"], made.definition["bytes"]) == (2, 2)
    folder = settings.WORKLOADS_DIR / "store" / "trees" / made.definition["digest"]
    assert (folder / "deep" / "b").read_text() == "2"
    # When only its description changes, then the files stay
    lin.post(
        reverse("asset", args=[made.pk]),
        {"name": "weights", "version": 1, "type": "tree", "description": "the small ones"},
    )
    changed = models.Asset.objects.get()
    assert (changed.description, changed.definition) == ("the small ones", made.definition)


def test_files_that_can_not_be_kept_are_told_at_the_field(lin, settings):
    settings.UPLOAD_MIB = 1
    for upload, said in (
        (archive(a="x" * (2**20 + 1)), "it is too large"),
        (archive(**{"..__x": "1"}), "leads out of the tree"),
        (SimpleUploadedFile("weights.zip", b"none"), "not a zip file"),
    ):
        page = post_new(lin, "source", name="w", type="tree", upload=upload).content.decode()
        assert said in page
    page = post_new(lin, "source", name="w", type="tree").content.decode()
    assert "Choose the files" in page
    assert not models.Asset.objects.exists()


def test_an_environment_is_read_back_as_it_was_written(lin):
    post_new(
        lin,
        "environment",
        name="python",
        command="python 'my train.py'",
        env="A=1\nB=x=y\n",
        working_dir="code",
        start_timeout_s="60",
    )
    made = models.Asset.objects.get()
    assert made.definition["command"] == ["python", "my train.py"]
    assert made.definition["env"] == {"A": "1", "B": "x=y"}
    page = get(lin, "asset", made.pk)
    assert "python &#x27;my train.py&#x27;" in page
    assert "A=1\nB=x=y" in page


def test_a_secret_is_written_and_never_read(lin, admin):
    post_new(lin, "credential", name="hub", secrets=f"HUB_TOKEN={SECRET}\nOTHER=1")
    made = models.Asset.objects.get()
    assert secret_box.unseal(sealed=bytes(made.secret.sealed))["HUB_TOKEN"] == SECRET
    pages = [get(lin, "asset", made.pk), get(lin, "assets", kind="credential")]
    # When it is written wrongly, the form does not give it back either
    bad = lin.post(reverse("asset", args=[made.pk]), {"name": "hub", "secrets": f"{SECRET} x"})
    pages.append(bad.content.decode())
    assert "is not NAME=value" in pages[-1]
    # When only the description changes, the values stay
    lin.post(reverse("asset", args=[made.pk]), {"name": "hub", "description": "d", "secrets": ""})
    assert models.Asset.objects.get().secret_id == made.secret_id
    lin.force_login(admin)
    pages += [get(lin, "audit"), get(lin, "admin:index")]
    assert not any(SECRET in page for page in pages)
    assert "HUB_TOKEN, OTHER" in pages[0]


# --- Submitting -----------------------------------------------------------------------------------


def test_work_names_assets_on_the_form(lin):
    source = define("source", "code", **GIT)
    environment = define("environment", "python", of=None, command=["python", "train.py"])
    foreign = define("source", "secret-set", of="vision-lab", **GIT)
    page = get(lin, "workload_new")
    assert "code (nlp-lab)" in page
    assert "python (the whole cluster)" in page
    assert "secret-set" not in page
    fields = {
        "project": project().pk,
        "name": "mine",
        "kind": "training",
        "gpu": "0.10",
        "environment": environment.pk,
        "sources": [source.pk],
        "min_replicas": "1",
        "max_replicas": "1",
        "grace_s": "30",
    }
    refused = lin.post(reverse("workload_new"), {**fields, "sources": [foreign.pk]})
    assert refused.status_code == 200
    assert lin.post(reverse("workload_new"), fields).status_code == 302
    made = models.Workload.objects.get(name="mine")
    assert made.command == ["python", "train.py"]
    shown = get(lin, "workload", made.pk)
    assert reverse("asset", args=[source.pk]) in shown
    assert made.name in get(lin, "asset", source.pk)


def test_a_template_is_kept_from_the_form_and_fills_it(client, scene):
    client.force_login(person("chen", Role.PROJECT_ADMIN, project="nlp-lab"))
    fields = {**SERVICE, "project": project().pk, "env": "A=1", "max_replicas": "3"}
    fields |= {"metric": "concurrency", "keep": "template"}
    answer = client.post(reverse("workload_new"), fields)
    made = models.Asset.objects.get()
    assert answer.url == reverse("asset", args=[made.pk])
    assert not models.Workload.objects.filter(name="chat").exists()
    page = get(client, "workload_new", template=made.pk)
    assert "vllm serve weights/tiny" in page
    for part in ('value="0.10"', "A=1", 'value="900"', 'value="concurrency" selected'):
        assert part in page, part
    assert client.get(reverse("workload_new"), {"template": 987_654}).status_code == 404


def test_a_template_is_no_way_around_a_role(lin, admin):
    # Given a template of a service, kept by someone who may serve
    lin.force_login(admin)
    fields = {**SERVICE, "project": project().pk, "keep": "template"}
    assert lin.post(reverse("workload_new"), fields).status_code == 302
    made = models.Asset.objects.get()
    # When a researcher begins from it, then inference is not offered, and refused all the same
    lin.force_login(AccessRule.objects.get(user__username="lin").user)
    assert 'value="inference"' not in get(lin, "workload_new", template=made.pk)
    answer = lin.post(reverse("workload_new"), {**SERVICE, "project": project().pk})
    assert answer.status_code == 403
    assert "Send a request to serve" in answer.content.decode()
    assert not models.Workload.objects.filter(name="chat").exists()


def estimate(client, **fields):
    asked = {**SERVICE, "project": project().pk, **fields}
    answer = client.post(reverse("workload_estimate"), asked)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_form_says_what_a_slice_leaves(client, scene):
    client.force_login(person("chen", Role.PROJECT_ADMIN, project="nlp-lab"))
    # Given a tenth of 81,920 MiB, and weights of 4 GiB
    page = estimate(client, weights_gib="4")
    for part in ("8,192 MiB", "600 MiB", "assumption", "4,096 MiB", "3,440 MiB"):
        assert part in page, part
    assert "--enforce-eager --gpu-memory-utilization &#x27;{slice:0.92}&#x27;" in page
    assert "--max-model-len 4096" in page
    # When the weights take all of it, then it says so
    assert "It can't start" in estimate(client, weights_gib="8")
    assert "Little is left" in estimate(client, weights_gib="7.2")
    assert "such a one is refused" in estimate(
        client, weights_gib="4", kv_kib="1000", max_tokens="4000"
    )
    # And without a size of the weights, or a share, nothing is said of what is left
    assert "nothing can be said" in estimate(client)
    assert "Ask for a share" in estimate(client, gpu="")
    # When the fixed cost was measured, then it is no assumption
    for model in {device.model for device in models.Device.objects.all()}:
        models.GpuFixedCost.objects.create(
            gpu_model=model, fixed_mib=480, measured_at=timezone.now()
        )
    page = estimate(client, weights_gib="4")
    assert "480 MiB" in page
    assert "assumption" not in page


@pytest.mark.parametrize(
    ("engine", "parts"),
    [
        ("llama", ["llama-server", "--ctx-size", "--alias &#x27;{name}&#x27;"]),
        ("sglang", ["sglang.launch_server", "--mem-fraction-static", "--disable-cuda-graph"]),
        ("tgi", ["text-generation-launcher", "--cuda-memory-fraction", "--max-total-tokens"]),
    ],
)
def test_each_server_has_its_command(client, scene, engine, parts):
    client.force_login(person("chen", Role.PROJECT_ADMIN, project="nlp-lab"))
    page = estimate(client, engine=engine)
    for part in [*parts, "{port}"]:
        assert part in page, part


def test_a_service_of_a_server_is_submitted(client, scene):
    client.force_login(person("chen", Role.PROJECT_ADMIN, project="nlp-lab"))
    fields = {**SERVICE, "project": project().pk}
    page = client.post(reverse("workload_new"), {**fields, "model": ""}).content.decode()
    assert "Say which model is served" in page
    assert client.post(reverse("workload_new"), fields).status_code == 302
    made = models.Workload.objects.get(name="chat")
    assert made.command[:3] == ["vllm", "serve", "weights/tiny"]
    assert (made.readiness_path, made.start_timeout_s) == ("/health", 900)


# --- The processes of a GPU -----------------------------------------------------------------------


def test_a_gpu_lists_its_processes_with_memory_granted_and_used(client, admin, scene):
    models.ReplicaDevice.objects.update(memory_mib=20_480)
    models.Replica.objects.update(memory_used_mib=19_000)
    client.force_login(admin)
    assert reverse("device", args=["l40s-01", 0]) in get(client, "nodes")
    page = get(client, "device", "l40s-01", 0)
    assert page.count("data-process=") == 3
    for part in ("chat-dev", "rag-a", "rag-b", "20,480 MiB", "19,000 MiB", "used 57,000 MiB"):
        assert part in page, part
    # And of a workload on several GPUs no figure is made up
    assert 'data-used=""' in get(client, "device", "h100-02", 0)


def test_processes_outside_of_ones_scope_are_an_amount(lin):
    page = get(lin, "device", "l40s-01", 0)
    assert "in use by others" in page
    assert page.count("data-process=") == 0
    for name in ("chat-dev", "rag-a", "dev-inference"):
        assert name not in page
    assert lin.get(reverse("device", args=["l40s-01", 99])).status_code == 404
    assert lin.get(reverse("device", args=["nowhere", 0])).status_code == 404
