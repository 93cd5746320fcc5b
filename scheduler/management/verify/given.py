"""What several verifications begin with: the article's services, and trainings that fill its limit."""

from __future__ import annotations

from scheduler.management.verify.layout import gpus
from scheduler.management.verify.readers import Processes
from scheduler.management.verify.said import say
from scheduler.management.verify.stage import Stage

#: The article's three services: name, project, which amount of the layout.
SERVICES = ("chat", "embed", "answers")


def start_services(stage: Stage) -> Processes:
    """Start the three services and return the process table once all answer."""
    layout = stage.layout
    stage.submit_service("chat", project="dev-chat", mgpu=layout.chat_mgpu)
    stage.submit_service("embed", project="dev-embed", mgpu=layout.embed_mgpu)
    stage.submit_service("answers", project="prod-inference", mgpu=layout.answers_mgpu)
    return stage.wait_for_services(SERVICES)


def submit_trainings(stage: Stage, *, project: str, prefix: str, count: int) -> None:
    """Hand in trainings one after the other: prefix-1, prefix-2, ..."""
    for number in range(1, count + 1):
        stage.submit_training(
            f"{prefix}-{number}", project=project, mgpu=stage.layout.training_mgpu
        )


def services_in_words(stage: Stage) -> str:
    """Say what the three services hold."""
    layout = stage.layout
    return say(
        "{devices} GPU; services chat {chat} and embed {embed} in dev-test, answers "
        "{answers} in prod",
        devices=gpus(layout.devices * 1000),
        chat=gpus(layout.chat_mgpu),
        embed=gpus(layout.embed_mgpu),
        answers=gpus(layout.answers_mgpu),
    )


def names(prefix: str, count: int, *, first: int = 1) -> str:
    """Return "train-1, train-2, ..." as the process table lists them."""
    return ", ".join(f"{prefix}-{n}" for n in range(first, first + count)) or "none"
