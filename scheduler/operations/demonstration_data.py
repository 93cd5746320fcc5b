"""The demonstration clusters as data: what each holds and what it runs. Real processes, light ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.core.autoscale import Metric
from scheduler.core.units import UNLIMITED_MGPU, WHOLE_GPU_MGPU
from scheduler.core.vocabulary import Kind

L40S_MIB = 46_068
H100_MIB = 81_559
A100_MIB = 81_920


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """One node: its name, its model, and how many devices of how much memory."""

    name: str
    model: str
    memory_mib: int
    devices: int
    cordoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A department, or a project of one."""

    name: str
    quota_mgpu: int
    limit_mgpu: int = UNLIMITED_MGPU
    over_quota: bool = True
    department: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One workload: what it is, how much it asks for, what it runs."""

    name: str
    project: str
    kind: Kind
    request_mgpu: int
    command: Sequence[str]
    devices: int = 1
    replicas: int = 1
    #: Of a service: how many it may have at most, and by what it takes more; it follows its load.
    most: int = 0
    least: int = 1
    metric: Metric = Metric.CONCURRENCY
    threshold: int = 2
    priority: int | None = None
    preemptible: bool | None = None
    grace_s: int = 30
    gpu_model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Trainings that the demonstration's day hands in to a project: so many at any time."""

    project: str
    mgpu: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """One cluster to look at."""

    name: str
    cluster: str
    nodes: Sequence[NodeShape]
    departments: Sequence[Unit]
    projects: Sequence[Unit]
    work: Sequence[Work] = field(default_factory=tuple)
    fills: Sequence[Fill] = field(default_factory=tuple)


def training(
    *,
    epoch_s: str = "3",
    epochs: int = 3000,
    passes: int = 6,
    checkpoint_every: int = 4,
    seed: int = 0,
) -> tuple[str, ...]:
    """Return the command of the example training; the seed gives each its own learning rate."""
    return (
        "python",
        "{examples}/training/train_digits.py",
        "--epochs",
        str(epochs),
        "--epoch-seconds",
        epoch_s,
        "--passes",
        str(passes),
        "--rate",
        f"0.000{3 + seed % 5}",
        # Saving takes a moment, so that an interruption can be watched.
        "--checkpoint-every",
        str(checkpoint_every),
        "--save-seconds",
        "1.5",
    )


def service(*, model: str, engine: str = "ngram") -> tuple[str, ...]:
    """Return the command of the example inference server. It listens on the PORT that it is given."""
    return ("python", "{examples}/inference/serve.py", "--name", model, "--model", engine)


def workspace() -> tuple[str, ...]:
    """Return the command of the example workspace, which holds its share and computes nothing."""
    return ("python", "{examples}/workspace/idle.py")


def _card() -> Demonstration:
    """The article's test cluster: one card, seven projects, three services, seven trainings."""
    services = [
        Work(
            name="chat",
            project="dev-chat",
            kind=Kind.INFERENCE,
            request_mgpu=200,
            command=service(model="chat", engine="auto"),
            most=3,
        ),
        Work(
            name="answers",
            project="prod-inference",
            kind=Kind.INFERENCE,
            request_mgpu=120,
            command=service(model="answers"),
            most=3,
        ),
        Work(
            name="embed",
            project="dev-embed",
            kind=Kind.INFERENCE,
            request_mgpu=100,
            command=service(model="embed"),
            most=3,
            metric=Metric.THROUGHPUT,
            threshold=3,
        ),
    ]
    trainings = [
        Work(
            name=f"train-{number}",
            project="unit-a",
            kind=Kind.TRAINING,
            request_mgpu=90,
            command=training(seed=number),
        )
        for number in range(1, 8)
    ]
    return Demonstration(
        name="card",
        cluster="card-lab",
        nodes=[NodeShape(name="card-01", model="L40S 48 GB", memory_mib=L40S_MIB, devices=1)],
        departments=[
            Unit(name="prod", quota_mgpu=250),
            Unit(name="dev-test", quota_mgpu=750, limit_mgpu=760),
        ],
        projects=[
            Unit(name="prod-inference", department="prod", quota_mgpu=250),
            Unit(name="prod-training", department="prod", quota_mgpu=0),
            Unit(name="dev-chat", department="dev-test", quota_mgpu=200),
            Unit(name="dev-embed", department="dev-test", quota_mgpu=100),
            Unit(name="unit-a", department="dev-test", quota_mgpu=90),
            Unit(name="unit-b", department="dev-test", quota_mgpu=90),
            Unit(name="unit-c", department="dev-test", quota_mgpu=180),
        ],
        work=[*services, *trainings],
        fills=[Fill(project="prod-training", mgpu=120, most=2)],
    )


def _server() -> Demonstration:
    """The article's target: eight devices, production 2, development 6."""
    whole = WHOLE_GPU_MGPU
    work = [
        Work(
            name="answers",
            project="prod-inference",
            kind=Kind.INFERENCE,
            request_mgpu=500,
            command=service(model="answers", engine="auto"),
            least=0,
            most=3,
        ),
        Work(
            name="chat",
            project="dev-chat",
            kind=Kind.INFERENCE,
            request_mgpu=500,
            command=service(model="chat"),
            most=3,
        ),
        Work(
            name="embed",
            project="dev-embed",
            kind=Kind.INFERENCE,
            request_mgpu=250,
            command=service(model="embed"),
            most=3,
            metric=Metric.THROUGHPUT,
            threshold=3,
        ),
        Work(
            name="notebook",
            project="unit-b",
            kind=Kind.WORKSPACE,
            request_mgpu=500,
            command=workspace(),
        ),
        Work(
            name="sweep",
            project="prod-training",
            kind=Kind.TRAINING,
            request_mgpu=whole,
            command=training(seed=40),
        ),
    ]
    work += [
        Work(
            name=f"train-{number}",
            project="unit-a",
            kind=Kind.TRAINING,
            request_mgpu=whole,
            command=training(seed=number),
        )
        for number in range(1, 6)
    ]
    return Demonstration(
        name="server",
        cluster="server-lab",
        nodes=[NodeShape(name="server-01", model="L40S 48 GB", memory_mib=L40S_MIB, devices=8)],
        departments=[
            Unit(name="prod", quota_mgpu=2 * whole),
            Unit(name="dev-test", quota_mgpu=6 * whole, limit_mgpu=6 * whole),
        ],
        projects=[
            Unit(name="prod-inference", department="prod", quota_mgpu=2 * whole),
            Unit(name="prod-training", department="prod", quota_mgpu=0),
            Unit(name="dev-chat", department="dev-test", quota_mgpu=1600),
            Unit(name="dev-embed", department="dev-test", quota_mgpu=800),
            Unit(name="unit-a", department="dev-test", quota_mgpu=whole),
            Unit(name="unit-b", department="dev-test", quota_mgpu=whole),
            Unit(name="unit-c", department="dev-test", quota_mgpu=1600),
        ],
        work=work,
        fills=[
            Fill(project="prod-training", mgpu=whole, most=2),
            Fill(project="unit-b", mgpu=whole, most=1),
        ],
    )


_RACK_NODES = [
    *(
        NodeShape(name=f"h100-0{n}", model="H100 80 GB", memory_mib=H100_MIB, devices=8)
        for n in range(1, 5)
    ),
    *(
        NodeShape(name=f"l40s-0{n}", model="L40S 48 GB", memory_mib=L40S_MIB, devices=8)
        for n in range(1, 4)
    ),
    NodeShape(name="a100-01", model="A100 80 GB", memory_mib=A100_MIB, devices=8),
]

#: project, kind, devices a replica, milli-GPU a device, model, names.
_RACK_WORK: Sequence[tuple[str, str, int, int, str, str]] = [
    ("prod-inference", "service", 4, 1000, "H100 80 GB", "llama-70b"),
    ("dev-train", "training", 8, 1000, "H100 80 GB", "llama-sft"),
    ("nlp-lab", "training", 4, 1000, "H100 80 GB", "nlp-pre"),
    ("vision-lab", "training", 4, 1000, "H100 80 GB", "vit-h"),
    ("prod-training", "training", 2, 1000, "H100 80 GB", "ranker-ft"),
    ("prod-inference", "service", 1, 1000, "H100 80 GB", "qwen-32b mixtral embed-xl rerank-l"),
    ("vision-lab", "training", 1, 1000, "H100 80 GB", "seg-eval"),
    ("prod-inference", "service", 1, 500, "H100 80 GB", "code-7b rerank whisper"),
    ("prod-inference", "service", 1, 250, "H100 80 GB", "embed-s"),
    ("nlp-lab", "workspace", 1, 500, "H100 80 GB", "nb-7"),
    ("nlp-lab", "workspace", 1, 250, "H100 80 GB", "nb-8"),
    ("prod-inference", "service", 1, 1000, "L40S 48 GB", "vlm-11b"),
    ("prod-inference", "service", 1, 250, "L40S 48 GB", "guard-a guard-b lang-id toxic route"),
    ("prod-inference", "service", 1, 500, "L40S 48 GB", "sum-13b draft"),
    ("dev-inference", "service", 1, 500, "L40S 48 GB", "chat-dev sql-gen tts agent stt"),
    ("dev-inference", "service", 1, 250, "L40S 48 GB", "rag-a rag-b ocr ner"),
    ("vision-lab", "training", 1, 500, "L40S 48 GB", "aug-12 aug-13"),
    ("vision-lab", "training", 1, 1000, "L40S 48 GB", "det-r50 det-r101 pose-x"),
    ("dev-train", "training", 1, 1000, "L40S 48 GB", "dpo-8b dpo-8c sweep-2 sweep-3"),
    ("bio-fold", "training", 1, 1000, "L40S 48 GB", "dock-77 dock-78"),
    ("bio-fold", "training", 1, 500, "L40S 48 GB", "fold-q1"),
    ("bio-fold", "training", 1, 250, "L40S 48 GB", "fold-q2"),
    ("bio-fold", "workspace", 1, 500, "L40S 48 GB", "nb-12"),
    ("nlp-lab", "training", 1, 500, "L40S 48 GB", "tok-bpe"),
    ("nlp-lab", "workspace", 1, 500, "L40S 48 GB", "nb-13"),
    ("prod-training", "training", 1, 1000, "", "distill-3 distill-4 distill-5"),
    ("prod-inference", "service", 1, 1000, "A100 80 GB", "legacy-1 legacy-2"),
    ("dev-inference", "service", 1, 750, "A100 80 GB", "mt-zh"),
    ("dev-train", "training", 1, 1000, "", "sft-nightly"),
    ("vision-lab", "training", 3, 1000, "H100 80 GB", "seg-xl"),
]


def _rack_command(kind: str, name: str, number: int) -> tuple[str, ...]:
    match kind:
        case "service":
            return service(model=name)
        case "workspace":
            return workspace()
        case _:
            return training(epoch_s="20", checkpoint_every=1, seed=number)


def _racks() -> Demonstration:
    """Eight nodes of eight devices and some sixty light processes: the picture of the Overview."""
    whole = WHOLE_GPU_MGPU
    kinds = {"service": Kind.INFERENCE, "workspace": Kind.WORKSPACE, "training": Kind.TRAINING}
    work = [
        Work(
            name=name,
            project=project,
            kind=kinds[kind],
            devices=devices,
            request_mgpu=mgpu,
            gpu_model=model,
            command=_rack_command(kind, name, number),
            most=3 if kind == "service" and mgpu <= whole // 2 else 0,
        )
        for number, (project, kind, devices, mgpu, model, names) in enumerate(_RACK_WORK)
        for name in names.split()
    ]
    return Demonstration(
        name="racks",
        cluster="tpe-lab-01",
        nodes=_RACK_NODES,
        departments=[
            Unit(name="Production", quota_mgpu=24 * whole, limit_mgpu=24 * whole),
            Unit(name="Dev and test", quota_mgpu=24 * whole, limit_mgpu=32 * whole),
            Unit(name="Research", quota_mgpu=16 * whole, limit_mgpu=24 * whole),
        ],
        projects=[
            Unit(
                name="prod-inference",
                department="Production",
                quota_mgpu=24 * whole,
                limit_mgpu=24 * whole,
            ),
            Unit(
                name="prod-training", department="Production", quota_mgpu=0, limit_mgpu=24 * whole
            ),
            Unit(
                name="dev-train",
                department="Dev and test",
                quota_mgpu=10 * whole,
                limit_mgpu=14 * whole,
            ),
            Unit(
                name="dev-inference",
                department="Dev and test",
                quota_mgpu=6 * whole,
                limit_mgpu=8 * whole,
            ),
            Unit(
                name="vision-lab",
                department="Dev and test",
                quota_mgpu=8 * whole,
                limit_mgpu=12 * whole,
            ),
            Unit(
                name="nlp-lab", department="Research", quota_mgpu=10 * whole, limit_mgpu=16 * whole
            ),
            Unit(
                name="bio-fold", department="Research", quota_mgpu=6 * whole, limit_mgpu=8 * whole
            ),
        ],
        work=work,
        fills=[
            Fill(project="prod-training", mgpu=whole, most=3),
            Fill(project="dev-train", mgpu=whole, most=2),
        ],
    )


DEMONSTRATIONS = {d.name: d for d in (_card(), _server(), _racks())}
