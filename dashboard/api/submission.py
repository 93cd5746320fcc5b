"""A submission as the API takes it. What is left out has the kind's default."""

from __future__ import annotations

import dataclasses
from typing import Annotated, get_args, get_origin

from ninja import Schema
from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from dashboard.api.lists import Id
from scheduler.core.autoscale import Metric
from scheduler.core.vocabulary import Kind
from scheduler.operations.services import Scaling
from scheduler.operations.submissions import Submission

#: What a column of the database holds at most.
MOST_INT = 2**31 - 1


class Strict(Schema):
    """A body whose unknown fields are mistakes, so that a misspelt one is not lost in silence.

    Numbers and truth values are taken only as JSON writes them: 1, not "1" nor true. No text has NUL.
    """

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def as_json_writes_it(cls, value: object, info: ValidationInfo) -> object:
        """Refuse a number where a truth value stands, a text or truth value where a number does."""
        field = cls.model_fields[info.field_name or ""]
        kinds = {
            get_args(each)[0] if get_origin(each) is Annotated else each
            for each in (get_args(field.annotation) or (field.annotation,))
        }
        if bool in kinds and not isinstance(value, bool | None):
            raise ValueError("Write true or false.")
        if int in kinds and isinstance(value, bool | str):
            raise ValueError("Write a number, such as 1.")
        if _has_nul(value):
            raise ValueError("Leave out the character U+0000.")
        return value


def _has_nul(value: object) -> bool:
    """Test for the one character that no column of text holds, however deep it stands."""
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_has_nul(key) or _has_nul(each) for key, each in value.items())
        case list():
            return any(map(_has_nul, value))
        case _:
            return False


class ScalingIn(Strict):
    """How a service scales, and what its gateway lets through."""

    model_names: list[str] = Field([], max_length=20)
    open_to_all: bool = False
    metric: Metric | None = Field(None, description="None: by activity alone, or never.")
    threshold: int = Field(100, ge=1, le=MOST_INT, description="A further replica above it.")
    target_percent: int = Field(70, ge=1, le=100)
    gauge_name: str = Field("", max_length=120)
    gauge_path: str = Field("/metrics", max_length=200)
    initial_replicas: int | None = Field(None, ge=0, le=1024)
    activation_replicas: int | None = Field(None, ge=0, le=1024)
    hard_limit: int = Field(0, ge=0, le=MOST_INT, description="Requests at once a replica; 0: any.")
    stable_window_s: int = Field(60, ge=0, le=86_400)
    zero_grace_s: int = Field(30, ge=0, le=86_400)
    zero_retention_s: int = Field(0, ge=0, le=MOST_INT)
    scale_down_delay_s: int = Field(0, ge=0, le=MOST_INT)
    request_timeout_s: int = Field(300, ge=0, le=86_400)
    drain_s: int = Field(120, ge=0, le=86_400)
    waiting_limit: int = Field(1000, ge=0, le=MOST_INT)

    def as_scaling(self) -> Scaling:
        """Return it as the operations take it."""
        values = self.model_dump(include=set(ScalingIn.model_fields))
        values["model_names"] = tuple(values["model_names"])
        return Scaling(**values)


class WorkIn(Strict):
    """What to run, and what each replica asks for.

    Ask for a share (``request_mgpu``: 1 to 999 thousandths, or 1000 for whole GPUs, ``devices`` of
    them) or for memory (``gpu_memory_mib``), not for both. Assets are named by id; what an environment
    says holds where nothing else is said.
    """

    kind: Kind = Kind.TRAINING
    command: list[str] = Field([], max_length=1000, description="Empty: the environment's.")
    priority: int | None = Field(None, description="1 to 1000. None: as usual for its kind.")
    preemptible: bool | None = Field(None, description="None: below priority 100 it is.")
    devices: int = Field(1, ge=0, le=1024, description="Devices a replica.")
    request_mgpu: int = Field(0, ge=-MOST_INT, le=MOST_INT, description="Of each device.")
    gpu_memory_mib: int | None = Field(None, ge=0, le=MOST_INT)
    cpu_milli: int = Field(0, ge=-MOST_INT, le=MOST_INT)
    memory_mib: int = Field(0, ge=-MOST_INT, le=MOST_INT)
    min_replicas: int = Field(1, ge=0, le=MOST_INT)
    max_replicas: int | None = Field(None, ge=0, le=MOST_INT, description="None: the minimum.")
    node_labels: dict[str, str] = {}
    gpu_models: list[str] = []
    env: dict[str, str] = {}
    working_dir: str = Field("", max_length=200, description="Below the workload's own folder.")
    environment_id: Id | None = None
    source_ids: list[Id] = Field([], max_length=50)
    credential_ids: list[Id] = Field([], max_length=50)
    readiness_path: str = Field("", max_length=200)
    start_timeout_s: int = Field(600, ge=1, le=86_400)
    grace_s: int = Field(30, description="Seconds to save after SIGTERM, at most 300.")
    max_attempts: int | None = Field(None, ge=0, le=32_767)
    scaling: ScalingIn | None = Field(None, description="Of inference only.")

    def submission(self, *, name: str) -> Submission:
        """Return it as the operations take it."""
        names = {each.name for each in dataclasses.fields(Submission)}
        values = {key: value for key, value in self.model_dump().items() if key in names}
        if self.max_replicas is None:
            values["max_replicas"] = max(1, self.min_replicas)
        return Submission(**{**values, "name": name})

    def as_scaling(self) -> Scaling:
        """Return how the service scales, with defaults where nothing is said."""
        return Scaling() if self.scaling is None else self.scaling.as_scaling()


class SubmissionIn(WorkIn):
    """Work with its name and its place."""

    name: str = Field(max_length=63)
    project_id: Id
    pool: str = Field("", max_length=63, description="Empty: the first pool.")

    def named(self) -> Submission:
        """Return it as the operations take it, under its name."""
        return self.submission(name=self.name)


class BatchIn(Strict):
    """Several submissions."""

    workloads: list[SubmissionIn] = Field(min_length=1, max_length=100)
