"""Where an engine's machine sits: its address, its storage, and the lease on which its work runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What differs between the machine that decides and one that joined it.

    ``host``: the address at which services are reached, and to which they are told to listen.
    ``shared_dir``: what all machines see alike: working and checkpoint directories, so that work can go
    on elsewhere, and the store of data. None: beside the engine's own files.
    ``lease``: a file that is renewed for as long as the machine is in touch (``leases.py``). Work ends
    once it is older than ``lease_s``. Empty: work runs whether or not anybody is in touch.
    """

    host: str = "127.0.0.1"
    shared_dir: Path | None = None
    lease: str = ""
    lease_s: int = 0


AT_HOME = Seat()
