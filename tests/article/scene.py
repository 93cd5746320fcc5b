"""The article's machine: one card, production with 0.25 guaranteed, development and test with 0.75."""

from __future__ import annotations

from tests.builders import Cluster


def one_card():
    """Return the card with its queues and the three services that always run: 0.20, 0.10, 0.12."""
    return (
        Cluster(gpus="1")
        .department("prod", quota="0.25")
        .project("prod-inference", of="prod", quota="0.25")
        .project("prod-training", of="prod", quota="0")
        .department("dev-test", quota="0.75", limit="0.76")
        .project("dev-chat", of="dev-test", quota="0.20")
        .project("dev-embed", of="dev-test", quota="0.10")
        .project("unit-a", of="dev-test", quota="0.09")
        .project("unit-b", of="dev-test", quota="0.09")
        .project("unit-c", of="dev-test", quota="0.18")
        .inference("chat", of="dev-chat", gpu="0.20", on=0)
        .inference("embed", of="dev-embed", gpu="0.10", on=0)
        .inference("assistant", of="prod-inference", gpu="0.12", on=0)
    )
