"""The form that submits a workload: text to integers, each mistake at its field."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from dashboard.forms.asset_fields import AssetFields
from dashboard.forms.engine import EngineFields
from dashboard.forms.start_fields import (
    StartFields,
    command_field,
    readiness_path_field,
    start_timeout_field,
    variables_field,
)
from dashboard.problems import in_words
from scheduler.core.autoscale import Metric
from scheduler.core.units import WHOLE_GPU_MGPU, AmountRefused, format_gpu, parse_gpu
from scheduler.core.vocabulary import Kind, Priority
from scheduler.operations.engine_templates import TEMPLATES
from scheduler.operations.services import Scaling
from scheduler.operations.submissions import (
    MAX_REPLICAS,
    USUAL_START_TIMEOUT_S,
    Submission,
    find_problems,
)
from scheduler.queries.assets import AssetRow
from scheduler.queries.nodes import DeviceSize
from scheduler.queries.workloads import ProjectChoice

KINDS = (
    (Kind.TRAINING.value, _("Training")),
    (Kind.DISTRIBUTED.value, _("Distributed training")),
    (Kind.WORKSPACE.value, _("Workspace")),
    (Kind.INFERENCE.value, _("Inference")),
)
METRICS = (
    ("", _("Activity alone, or never")),
    (Metric.CONCURRENCY.value, _("Concurrency (requests)")),
    (Metric.THROUGHPUT.value, _("Throughput (requests/s)")),
    (Metric.LATENCY.value, _("Latency (milliseconds)")),
)
PRIORITIES = (
    ("", _("As usual for its kind")),
    (int(Priority.VERY_LOW), _("Very low (25)")),
    (int(Priority.LOW), _("Low (40)")),
    (int(Priority.MEDIUM_LOW), _("Medium low (65)")),
    (int(Priority.MEDIUM), _("Medium (80)")),
    (int(Priority.MEDIUM_HIGH), _("Medium high (90)")),
    (int(Priority.HIGH), _("High (125)")),
    (int(Priority.VERY_HIGH), _("Very high (150)")),
)
INTERRUPTIBLE = (
    ("", _("Follows its priority: below 100 it may")),
    ("yes", _("Yes, and it may borrow")),
    ("no", _("No, and it stays within the guarantee")),
)

#: Stands in for what could not be read, so that the rest can be checked all the same.
_EMPTY: dict[str, object] = {
    "name": "",
    "kind": Kind.TRAINING.value,
    "gpu": (1, 0),
    "gpu_memory_mib": None,
    "min_replicas": 1,
    "max_replicas": MAX_REPLICAS,
    "command": ["?"],
    "priority": None,
    "preemptible": "",
    "engine": "",
    "env": {},
    "environment": None,
    "sources": [],
    "credentials": [],
    "readiness_path": "",
    "start_timeout_s": None,
    "grace_s": 0,
}


class WorkloadForm(StartFields, EngineFields, AssetFields):
    """What a person types; ``submission`` is what it means."""

    project = forms.TypedChoiceField(label=_("Project"), coerce=int)
    pool = forms.ChoiceField(label=_("Node pool"), required=False)
    name = forms.CharField(label=_("Name"), max_length=63)
    kind = forms.ChoiceField(label=_("Kind"), choices=KINDS)
    gpu = forms.CharField(
        label=_("GPUs a replica"),
        initial="0.10",
        required=False,
        help_text=_("A fraction such as 0.25, or whole GPUs. Empty: no GPU."),
    )
    gpu_memory_mib = forms.IntegerField(label=_("or GPU memory, MiB"), required=False, min_value=1)
    min_replicas = forms.IntegerField(label=_("Replicas, at least"), initial=1, min_value=0)
    max_replicas = forms.IntegerField(label=_("Replicas, at most"), initial=1, min_value=1)
    metric = forms.ChoiceField(
        label=_("A service's further replica by"), choices=METRICS, required=False
    )
    threshold = forms.IntegerField(
        label=_("above, for each replica"), initial=2, min_value=1, required=False
    )
    command = command_field(
        _(
            "As in a shell, without pipes, such as: python {examples}/training/train_digits.py. "
            "Empty: that of the server or the environment."
        ),
    )
    env = variables_field(rows=2)
    readiness_path = readiness_path_field(_("Answered with 2xx once it is ready. Empty: /health."))
    start_timeout_s = start_timeout_field(
        required=False, help_text=_("Empty: as usual for the server, 600 for any command.")
    )
    priority = forms.TypedChoiceField(
        label=_("Priority"), choices=PRIORITIES, required=False, coerce=int, empty_value=None
    )
    preemptible = forms.ChoiceField(
        label=_("May be interrupted"), choices=INTERRUPTIBLE, required=False
    )
    grace_s = forms.IntegerField(
        label=_("Grace, seconds"),
        initial=30,
        min_value=0,
        max_value=300,
        help_text=_("Time to save after SIGTERM."),
    )

    def __init__(
        self,
        *args: object,
        projects: Sequence[ProjectChoice],
        pools: Sequence[str] = (),
        assets: Sequence[AssetRow] = (),
        devices: Sequence[DeviceSize] = (),
        offered: frozenset[Kind] = frozenset(Kind),
        may_define: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.offer(assets)
        self.devices = devices
        #: Whether the reader may define assets: where there are none, the form says where.
        self.may_define = may_define
        kinds = self.fields["kind"]
        assert isinstance(kinds, forms.ChoiceField)
        #: Whoever is not offered it is told of the request to serve.
        self.offers_inference = Kind.INFERENCE in offered
        kinds.choices = [(code, word) for code, word in KINDS if Kind(code) in offered]
        field = self.fields["project"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(project.id, project.name) for project in projects]
        self._offer_pools(pools)
        for name, bound in self.fields.items():
            bound.widget.attrs["aria-describedby"] = f"about-{name}"
            if self.is_bound and name in self.errors:
                bound.widget.attrs["aria-invalid"] = "true"

    def _offer_pools(self, pools: Sequence[str]) -> None:
        """Let one choose among several pools; of a single one there is nothing to ask."""
        field = self.fields["pool"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, name) for name in pools]
        self.asks_pool = len(pools) > 1

    def clean_gpu(self) -> tuple[int, int]:
        """Return (devices, mGPU of each): 0.25 is one device's quarter, 2 is two whole devices."""
        text = self.cleaned_data["gpu"] or "0"
        try:
            mgpu = parse_gpu(text, field="gpu")
        except AmountRefused as error:
            raise forms.ValidationError(
                _("Not an amount of GPUs: use a number with at most three places, such as 0.25.")
            ) from error
        if mgpu <= WHOLE_GPU_MGPU:
            return 1, mgpu
        devices, rest = divmod(mgpu, WHOLE_GPU_MGPU)
        if rest:
            raise forms.ValidationError(
                _("Above one GPU a replica takes whole GPUs: use 1, 2, 3 and so on.")
            )
        return devices, WHOLE_GPU_MGPU

    def clean(self) -> dict[str, object]:
        """Check what is there against the rules of a submission, so that all is said at once."""
        self._forget_hidden()
        data = self.cleaned_data
        if data.get("engine") and not data.get("command") and not data.get("model"):
            self.add_error("model", _("Say which model is served, or give a command."))
        said = set(self.errors)
        for problem in find_problems(submission=self.submission):
            field = "gpu" if problem.field == "devices" else problem.field
            if field not in said and field in self.fields:
                self.add_error(field, in_words(problem))
        return self.cleaned_data

    def _forget_hidden(self) -> None:
        """Take the usual value for what the kind does not use: nobody sees a mistake there."""
        kind = self.cleaned_data.get("kind")
        hidden: dict[str, object] = {}
        if kind != Kind.INFERENCE:
            hidden |= {"metric": "", "threshold": None, "engine": "", "model": ""}
            hidden |= {"weights_gib": None, "kv_kib": None, "max_tokens": None}
            hidden |= {"readiness_path": "", "start_timeout_s": None}
        if kind in (Kind.TRAINING, Kind.WORKSPACE):
            hidden |= {"min_replicas": 1, "max_replicas": 1}
        for name, usual in hidden.items():
            self.errors.pop(name, None)
            self.cleaned_data[name] = usual

    @classmethod
    def initial_of(cls, kept: Mapping[str, Any]) -> dict[str, object]:
        """Return what the fields hold for a submission that was kept as a template."""
        submission, scaling = kept["submission"], kept.get("scaling") or {}
        gpu_mgpu = submission["devices"] * submission["request_mgpu"]
        explicit = submission["preemptible"]
        return {
            "kind": submission["kind"],
            "gpu": format_gpu(gpu_mgpu) if gpu_mgpu else "",
            "gpu_memory_mib": submission["gpu_memory_mib"],
            "min_replicas": submission["min_replicas"],
            "max_replicas": submission["max_replicas"],
            "metric": scaling.get("metric") or "",
            "threshold": scaling.get("threshold", 2),
            "command": shlex.join(submission["command"]),
            "env": "\n".join(f"{name}={value}" for name, value in submission["env"].items()),
            "environment": submission["environment_id"],
            "sources": list(submission["source_ids"]),
            "credentials": list(submission["credential_ids"]),
            "readiness_path": submission["readiness_path"],
            "start_timeout_s": submission["start_timeout_s"],
            "priority": submission["priority"],
            "preemptible": {True: "yes", False: "no"}.get(explicit, ""),
            "grace_s": submission["grace_s"],
        }

    @property
    def scaling(self) -> Scaling:
        """Return how a service scales; only after ``is_valid``."""
        data = self.cleaned_data
        metric = Metric(data["metric"]) if data["metric"] else None
        return Scaling(metric=metric, threshold=data["threshold"] or 1)

    @property
    def submission(self) -> Submission:
        """Return what is asked for; what has a mistake of its own is as where it is left empty."""
        data: Mapping[str, Any] = {**_EMPTY, **self.cleaned_data}
        devices, request_mgpu = data["gpu"]
        memory_mib = data["gpu_memory_mib"]
        kind = Kind(data["kind"])
        single = kind in (Kind.TRAINING, Kind.WORKSPACE)
        template = TEMPLATES.get(data["engine"])
        usual_s = template.start_timeout_s if template else USUAL_START_TIMEOUT_S
        usual_path = template.readiness_path if template else ""
        return Submission(
            name=data["name"],
            kind=kind,
            command=data["command"] or self.made_command(),
            env=data["env"],
            environment_id=data["environment"],
            source_ids=data["sources"],
            credential_ids=data["credentials"],
            readiness_path=data["readiness_path"] or usual_path,
            start_timeout_s=data["start_timeout_s"] or usual_s,
            priority=data["priority"],
            preemptible={"yes": True, "no": False}.get(data["preemptible"]),
            devices=devices if request_mgpu or memory_mib else 0,
            request_mgpu=0 if memory_mib else request_mgpu,
            gpu_memory_mib=memory_mib,
            min_replicas=1 if single else data["min_replicas"],
            max_replicas=1 if single else data["max_replicas"],
            grace_s=data["grace_s"],
        )
