"""A cluster to look at: eight nodes of eight GPUs, three departments, work of every sort.

``lay_scene`` writes it into the tables as if the scheduler had placed it. A GPU is written as
``PI.5* rerank|PI.5 whisper``: project, share, marks (``*`` idle, ``~`` leaving), workload; ``@`` a gang.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import F

from scheduler import models
from scheduler.core.units import UNLIMITED_MGPU
from scheduler.core.vocabulary import DEFAULT_PRIORITY, Kind, Phase, ReplicaPhase

DEPARTMENTS = {
    "Production": (24_000, 24_000),
    "Dev and test": (24_000, 32_000),
    "Research": (16_000, 24_000),
}
#: Code: name, department, guarantee, limit, kind of its work.
PROJECTS = {
    "PI": ("prod-inference", "Production", 24_000, 24_000, Kind.INFERENCE),
    "PT": ("prod-training", "Production", 0, 24_000, Kind.TRAINING),
    "DT": ("dev-train", "Dev and test", 10_000, 14_000, Kind.TRAINING),
    "DI": ("dev-inference", "Dev and test", 6_000, 8_000, Kind.INFERENCE),
    "VL": ("vision-lab", "Dev and test", 8_000, 12_000, Kind.TRAINING),
    "NL": ("nlp-lab", "Research", 10_000, 16_000, Kind.TRAINING),
    "BF": ("bio-fold", "Research", 6_000, 8_000, Kind.TRAINING),
}
NODES = {
    "h100-01": "PI1 llama-70b,PI1 llama-70b,PI1 llama-70b,PI1 llama-70b,PI1 qwen-32b,PI1 mixtral,"
    "PI.5* code-7b|PI.25 embed-s,PI.5* rerank|PI.5* whisper",
    "h100-02": ",".join(["DT1 llama-sft"] * 8),
    "h100-03": "NL1 nlp-pre,NL1 nlp-pre,NL1 nlp-pre,NL1 nlp-pre,PT1 ranker-ft,PT1 ranker-ft,"
    "VL1 seg-eval,DT1~ sft-nightly",
    "h100-04": "VL1 vit-h,VL1 vit-h,VL1 vit-h,VL1 vit-h,PI1 embed-xl,PI1* rerank-l,PT1 distill-3,"
    "NL.5 nb-huang|NL.25* nb-wu",
    "l40s-01": "DI.5* chat-dev|DI.25 rag-a|DI.25* rag-b,DI.5* sql-gen|DI.5 tts,"
    "DI.25* ocr|VL.5 aug-12,VL1 det-r50,VL1 det-r101,DT1 dpo-8b,DT1 dpo-8c,"
    "BF.5 fold-q1|BF.5* nb-chen",
    "l40s-02": "PT1 distill-5,DT1 sweep-2,DT1 sweep-3,"
    "PI.25* guard-a|PI.25* guard-b|PI.25 lang-id|PI.25* toxic,PI.5 sum-13b|PI.5* sum-7b,"
    "DI.5* agent|DI.5 agent-b,DI.25 ner|DI.5* stt,BF1 dock-77",
    "l40s-03": "PI1 vlm-11b,PI1* vlm-12b,PI.5* tiny-1b|PI.25 route,VL1 pose-x,"
    "VL.5 aug-13|NL.5 tok-bpe,NL.5* nb-lee|BF.25 fold-q2,BF1 dock-78,PT1 distill-4",
    "a100-01": "PI1 legacy-1,PI1* legacy-2,PI1 legacy-3,DI.75* mt-zh,VL.5 nb-tsai,NL.5* nb-kao,,",
}
MODELS = {"h100": "H100 80 GB", "l40s": "L40S 48 GB", "a100": "A100 80 GB"}
_SLICE = re.compile(r"([A-Z]{2})([\d.]+)([*~]*) (\S+)")


def lay_scene(*, now: datetime) -> models.NodePool:
    """Write the scene and return its pool."""
    models.Cluster.objects.update_or_create(
        id=1, defaults={"name": "tpe-lab-01", "cycle": 90_112, "last_cycle_at": now}
    )
    models.GpuPrice.objects.create(gpu_model="", price_per_hour=74, from_at=now - timedelta(days=9))
    pool = models.NodePool.objects.create(name="main")
    projects = _lay_queues(pool, now)
    placed: dict[tuple[str, str], models.Workload] = {}
    for node, device, project, name, mgpu, marks in _slices(pool):
        workload = placed.get((project, name))
        if workload is None:
            workload = _lay_workload(pool, projects[project], PROJECTS[project][4], name, mgpu, now)
            placed[project, name] = workload
        _place(workload, node, device, mgpu, marks, now)
    _lay_waiting(pool, projects, placed, now)
    return pool


def _lay_queues(pool: models.NodePool, now: datetime) -> dict[str, models.Project]:
    departments = {}
    for name, (quota_mgpu, limit_mgpu) in DEPARTMENTS.items():
        slug = name.lower().replace(" ", "-")
        departments[name] = models.Department.objects.create(name=name, slug=slug, created_at=now)
        models.DepartmentQuota.objects.create(
            pool=pool, department=departments[name], quota_mgpu=quota_mgpu, limit_mgpu=limit_mgpu
        )
    projects = {}
    for color, (code, about) in enumerate(PROJECTS.items(), start=1):
        name, department, quota_mgpu, limit_mgpu, _kind = about
        projects[code] = models.Project.objects.create(
            department=departments[department], name=name, slug=name, color=color, created_at=now
        )
        models.ProjectQuota.objects.create(
            pool=pool,
            project=projects[code],
            quota_mgpu=quota_mgpu,
            limit_mgpu=min(limit_mgpu, UNLIMITED_MGPU),
        )
        models.QuotaHistory.objects.create(
            department=departments[department],
            project=projects[code],
            pool=pool,
            quota_mgpu=quota_mgpu,
            limit_mgpu=limit_mgpu,
            over_quota=True,
            from_us=0,
        )
    return projects


def _slices(
    pool: models.NodePool,
) -> Iterator[tuple[models.Node, models.Device, str, str, int, str]]:
    for name, gpus in NODES.items():
        model = MODELS[name.split("-")[0]]
        cordoned = name.startswith("a100")
        node = models.Node.objects.create(pool=pool, name=name, gpu_model=model, cordoned=cordoned)
        for index, text in enumerate(gpus.split(",")):
            device = models.Device.objects.create(
                node=node, index=index, model=model, memory_mib=81_920
            )
            for part in filter(None, text.split("|")):
                match = _SLICE.fullmatch(part)
                assert match is not None, part
                code, share, marks, workload = match.groups()
                yield node, device, code, workload, int(float(share) * 1000), marks


def _lay_workload(
    pool: models.NodePool,
    project: models.Project,
    kind: Kind,
    name: str,
    mgpu: int,
    now: datetime,
    **more: object,
) -> models.Workload:
    values: dict[str, object] = {
        "priority": int(DEFAULT_PRIORITY[kind]),
        "preemptible": kind is Kind.TRAINING,
        "request_mgpu": mgpu,
        "command": ["python", "train.py"],
        "phase": Phase.RUNNING,
        "phase_since": now - timedelta(hours=3),
        "running_since": now - timedelta(hours=3, minutes=12),
        "submitted_at": now - timedelta(hours=4),
        "submitted_by": "admin",
        "attempts": 1,
        **more,
    }
    return models.Workload.objects.create(
        project=project, pool=pool, name=name, kind=kind, **values
    )


def _place(
    workload: models.Workload,
    node: models.Node,
    device: models.Device,
    mgpu: int,
    marks: str,
    now: datetime,
) -> None:
    replica = workload.replicas.first()
    leaving = "~" in marks
    idle = "*" in marks
    if replica is None:
        replica = models.Replica.objects.create(
            workload=workload,
            node=node,
            phase=ReplicaPhase.STOPPING if leaving else ReplicaPhase.RUNNING,
            booked_at=now - timedelta(hours=3, seconds=workload.pk % 60),
            utilization_permille=0 if idle else 640 + workload.pk * 37 % 330,
            sampled_at=now,
            idle=idle,
            pid=4000 + workload.pk,
        )
        models.AllocationInterval.objects.create(
            workload=workload,
            replica=replica,
            attempt=1,
            project=workload.project,
            department=workload.project.department,
            pool=workload.pool,
            node=node,
            mgpu=0,
            kind=workload.kind,
            preemptible=workload.preemptible,
            from_us=int((now - timedelta(hours=3)).timestamp() * 1_000_000),
        )
    models.ReplicaDevice.objects.create(replica=replica, device=device, mgpu=mgpu)
    models.Replica.objects.filter(pk=replica.pk).update(mgpu=F("mgpu") + mgpu)
    models.AllocationInterval.objects.filter(replica=replica).update(mgpu=F("mgpu") + mgpu)
    models.Workload.objects.filter(pk=workload.pk).update(devices=replica.holdings.count())
    device.allocated_mgpu += mgpu
    device.save()


def _lay_waiting(
    pool: models.NodePool,
    projects: dict[str, models.Project],
    placed: dict[tuple[str, str], models.Workload],
    now: datetime,
) -> None:
    waiting = {"phase": Phase.PENDING, "running_since": None}
    probe = _lay_workload(
        pool,
        projects["NL"],
        Kind.TRAINING,
        "probe-7b",
        1000,
        now,
        **{**waiting, "phase_since": now - timedelta(seconds=12)},
    )
    seg = _lay_workload(
        pool,
        projects["VL"],
        Kind.TRAINING,
        "seg-xl",
        1000,
        now,
        **{
            **waiting,
            "devices": 3,
            "phase_since": now - timedelta(minutes=41),
            "reason_code": "OverLimit",
            "reason": {
                "code": "OverLimit",
                "resource": "gpu",
                "level": "project",
                "queue": projects["VL"].pk,
                "limit": 12_000,
                "allocated": 9_500,
                "requested": 3_000,
            },
        },
    )
    victim = placed["DT", "sft-nightly"]
    models.Workload.objects.filter(pk=victim.pk).update(
        phase=Phase.STOPPING,
        interruptions=1,
        checkpoint={"step": 18_400},
        checkpoint_at=now - timedelta(seconds=2),
    )
    leaving = victim.replicas.get()
    leaving.vacated_for = probe
    leaving.stop_code = "reclaim"
    leaving.stopping_at = now - timedelta(seconds=5)
    leaving.save()
    models.Nomination.objects.create(
        workload=probe, node=leaving.node, device_indices=[7], created_at=now
    )
    models.Decision.objects.create(
        at=now - timedelta(minutes=41),
        cycle=90_000,
        verb="deny",
        workload=seg,
        project=projects["VL"],
        pool=pool,
        params=seg.reason,
    )
    decision = models.Decision.objects.create(
        at=now - timedelta(seconds=5),
        cycle=90_110,
        verb="reclaim",
        workload=probe,
        project=projects["NL"],
        pool=pool,
        params={
            "checks": [
                {
                    "level": "project",
                    "queue_id": projects["NL"].pk,
                    "bound_mgpu": 10_000,
                    "have_mgpu": 6_250,
                    "request_mgpu": 1_000,
                    "holds": True,
                }
            ],
            "placements": [{"node": "h100-03", "devices": [7]}],
        },
    )
    models.DecisionParty.objects.create(
        decision=decision,
        role="victim",
        workload=victim,
        project=projects["DT"],
        params={"freed_mgpu": 1000, "priority": 40, "lost_s": 3},
    )
