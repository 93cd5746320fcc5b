"""One fault run: a product of its own, load, faults by the schedule, and what was found afterwards."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dashboard.launch.postgres import PostgresAway, TemporaryServer, temporary_server
from dashboard.management.faults import findings
from dashboard.management.faults.clock import SteppedClock, make_clock
from dashboard.management.faults.findings import Findings
from dashboard.management.faults.killer import Killer, processes_of
from dashboard.management.faults.load import Caller, Load, Told, Unanswered
from dashboard.management.faults.schedule import Fault, Kind
from dashboard.management.faults.volume import Volume, small_volume
from dashboard.management.own_cluster import NAMES, Cluster, cluster
from dashboard.management.own_product import NotStarted, OwnProduct

Say = Callable[[str], None]
#: What a fault that lasts may take longer than it was to.
LAST_FAULT_S = 120.0
#: A node that has lost touch for so long ends its work.
LEASE_S = 20


@dataclass(slots=True, kw_only=True)
class Outcome:
    """All that the summary shows."""

    told: Told = field(default_factory=Told)
    found: Findings = field(default_factory=Findings)
    injected: Counter[Kind] = field(default_factory=Counter)
    not_injected: dict[Kind, str] = field(default_factory=dict)
    log_errors: Counter[str] = field(default_factory=Counter)

    @property
    def is_good(self) -> bool:
        return not any(self.found.by_name().values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run happens, and what in it can be broken."""

    product: OwnProduct
    notes: Path
    volume: Volume
    clock: SteppedClock | None
    postgres: TemporaryServer | None
    cluster: Cluster | None


@contextmanager
def make_place(*, on_postgres: bool, on_ray: bool, keep: Path | None) -> Iterator[Place]:
    """Give a product that is not started yet; afterwards nothing is left of it but what is kept.

    Raises:
        PostgresAway: no PostgreSQL could be started.
        NotStarted: no cluster could be started.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-faults-")))
        postgres = stack.enter_context(temporary_server()) if on_postgres else None
        volume = stack.enter_context(small_volume(folder / "data"))
        clock = make_clock(folder)
        notes = folder / "notes"
        notes.mkdir()
        more = {"TIDEGATE_API_PER_MINUTE": "100000"}
        if clock is not None:
            more |= clock.environment()
        if postgres is not None:
            more["DATABASE_URL"] = postgres.url
        nodes = stack.enter_context(_nodes(folder)) if on_ray else None
        if nodes is not None:
            more |= nodes.environment(lease_s=LEASE_S)
        product = OwnProduct(data=volume.folder, flags=("--demo", "server"), more=more)
        place = Place(
            product=product,
            notes=notes,
            volume=volume,
            clock=clock,
            postgres=postgres,
            cluster=nodes,
        )
        try:
            yield place
        finally:
            product.end()
            if keep is not None:
                shutil.copytree(product.data / "logs", keep / "logs", dirs_exist_ok=True)
                shutil.copytree(notes, keep / "notes", dirs_exist_ok=True)
                _keep_logs_of_nodes(folder, keep)
            shutil.rmtree(product.data / "workloads", ignore_errors=True)  # its work ends with it


def carry_out(
    *, place: Place, seed: int, faults: Sequence[Fault], seconds: float, say: Say
) -> Outcome:
    """Start the product, break it under load, and look at what is left.

    Raises:
        NotStarted: the product did not come up at first.
    """
    product = place.product
    door = product.start()
    say(f"The product runs at {door.address}, its data in {product.data}.")
    outcome = Outcome()
    caller = Caller(address=door.address, token=_token(product), told=outcome.told)
    load = Load(
        caller=caller, told=outcome.told, notes=place.notes, address=door.address, seed=seed
    )
    load.prepare()
    if place.cluster is not None:
        load.move_to(NAMES)
    load.begin()
    killer = Killer(
        product=product,
        port=urlsplit(door.address).port or 0,
        volume=place.volume,
        clock=place.clock,
        postgres=place.postgres,
        cluster=place.cluster,
    )
    outcome.not_injected = killer.cannot()
    _break(killer, faults, seconds, outcome, say)
    say("The load ends; what runs has time to end.")
    load.end()
    outcome.found.trouble += load.trouble
    try:
        rows = findings.settle(caller, outcome.told)
    except Unanswered as error:
        outcome.found.trouble.append(f"the product does not answer any more: {error}")
        rows = {}
    findings.look(
        product=product, folder=place.notes, told=outcome.told, rows=rows, found=outcome.found
    )
    outcome.log_errors = findings.read_log_errors(product)
    product.end()
    if place.cluster is not None:
        place.cluster.stop()
    outcome.found.left_over += findings.wait_until_gone(product)
    return outcome


@contextmanager
def _nodes(folder: Path) -> Iterator[Cluster]:
    """Give three nodes. What all see alike lies where the disk becomes full; their own files do not."""
    own = folder / "nodes"
    own.mkdir()
    try:
        with cluster(own, shared=folder / "data" / "shared", devices=3) as made:
            yield made
    finally:
        for left in processes_of(folder):
            left.kill()


def _keep_logs_of_nodes(folder: Path, keep: Path) -> None:
    for file in sorted((folder / "nodes").glob("n?/*.log")):
        own = keep / "nodes" / file.parent.name
        own.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, own)


def _token(product: OwnProduct) -> str:
    done = product.manage("token", "admin")
    if done.returncode:
        raise NotStarted(done.stderr)
    return done.stdout.strip()


def _break(
    killer: Killer, faults: Sequence[Fault], seconds: float, outcome: Outcome, say: Say
) -> None:
    """Carry the faults out at their times, those that last beside the others."""
    began = time.monotonic()
    threads: list[threading.Thread] = []

    def carry_out_one(fault: Fault) -> None:
        try:
            hit = killer.inject(fault)
        except (NotStarted, PostgresAway, OSError) as error:
            outcome.found.trouble.append(f"{fault.kind}: {error}")
            return
        if hit:
            outcome.injected[fault.kind] += 1

    for fault in faults:
        if fault.kind in outcome.not_injected:
            continue
        time.sleep(max(0.0, began + fault.at_s - time.monotonic()))
        lasting = f" ({fault.for_s:g} s)" if fault.for_s else ""
        say(f"{time.monotonic() - began:7.1f} s  {fault.kind}{lasting}")
        thread = threading.Thread(target=carry_out_one, args=(fault,), daemon=True)
        thread.start()
        threads.append(thread)
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    for thread in threads:
        thread.join(LAST_FAULT_S)
        if thread.is_alive():
            outcome.found.trouble.append("a fault did not come to its end")
