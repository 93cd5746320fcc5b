"""The two sizes of the experiments, and what the rules give there by plain arithmetic.

Nothing here asks the scheduler: these figures are what it is held against.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.units import UNLIMITED_MGPU
from scheduler.operations.demonstration_data import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Amounts in milli-GPU. On one card all is a fraction of it, on the server whole devices."""

    name: str
    devices: int
    memory_mib: int
    prod_mgpu: int
    dev_mgpu: int
    dev_limit_mgpu: int
    chat_mgpu: int
    embed_mgpu: int
    answers_mgpu: int
    training_mgpu: int

    @property
    def capacity_mgpu(self) -> int:
        """All that there is."""
        return self.devices * 1000

    @property
    def dev_services_mgpu(self) -> int:
        """What the two services of dev-test hold."""
        return self.chat_mgpu + self.embed_mgpu

    def trainings_under(self, limit_mgpu: int) -> int:
        """Return how many trainings fit: department limit minus what its services hold."""
        return (limit_mgpu - self.dev_services_mgpu) // self.training_mgpu

    def slice_mib(self, mgpu: int) -> int:
        """Return the memory that a share of one device is: all that its process may see."""
        return mgpu * self.memory_mib // 1000


#: The article's test cluster: one L40S, 0.25 for production and 0.75 for development.
CARD = Layout(
    name="card",
    devices=1,
    memory_mib=46_068,
    prod_mgpu=250,
    dev_mgpu=750,
    dev_limit_mgpu=760,
    chat_mgpu=200,
    embed_mgpu=100,
    answers_mgpu=120,
    training_mgpu=90,
)
#: The article's target: eight devices, 2 and 6. The limit of 0.76 cards is 6.08 devices.
SERVER = Layout(
    name="server",
    devices=8,
    memory_mib=46_068,
    prod_mgpu=2000,
    dev_mgpu=6000,
    dev_limit_mgpu=6080,
    chat_mgpu=1000,
    embed_mgpu=1000,
    answers_mgpu=1000,
    training_mgpu=1000,
)
LAYOUTS = {layout.name: layout for layout in (CARD, SERVER)}


def article_units(layout: Layout) -> tuple[Unit, ...]:
    """Return the article's two departments and seven projects at this size, departments first."""
    one = layout.training_mgpu
    return (
        Unit(name="prod", quota_mgpu=layout.prod_mgpu, limit_mgpu=UNLIMITED_MGPU),
        Unit(name="dev-test", quota_mgpu=layout.dev_mgpu, limit_mgpu=layout.dev_limit_mgpu),
        Unit(name="prod-inference", department="prod", quota_mgpu=layout.prod_mgpu),
        Unit(name="prod-training", department="prod", quota_mgpu=0),
        Unit(name="dev-chat", department="dev-test", quota_mgpu=layout.chat_mgpu),
        Unit(name="dev-embed", department="dev-test", quota_mgpu=layout.embed_mgpu),
        Unit(name="unit-a", department="dev-test", quota_mgpu=one),
        Unit(name="unit-b", department="dev-test", quota_mgpu=one),
        Unit(name="unit-c", department="dev-test", quota_mgpu=2 * one),
    )


def gpus(mgpu: int) -> str:
    """Return milli-GPU as people write it: 90 is "0.09", 6080 is "6.08"."""
    whole, milli = divmod(mgpu, 1000)
    places = f"{milli:03d}"
    return f"{whole}.{places[:2] if places.endswith('0') else places}"
