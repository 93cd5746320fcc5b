"""A product for pictures: ``up`` with a demonstration in a throw-away folder, on a free port."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dashboard.management.own_product import Door, OwnProduct


@contextmanager
def running(*, demo: str) -> Iterator[Door]:
    """Start a product with a demonstration; end it and its work afterwards.

    Raises:
        NotStarted: it did not come up.
    """
    data = Path(tempfile.mkdtemp(prefix="tidegate-pictures-"))
    product = OwnProduct(data=data, flags=("--demo", demo))
    try:
        yield product.start()
    finally:
        product.end()
        # Work outlives the product; it ends when its folder is gone from its place.
        shutil.rmtree(data, ignore_errors=True)
