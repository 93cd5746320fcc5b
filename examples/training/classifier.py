"""A small neural network on scikit-learn's digits, in numpy alone: light on CPU and memory."""

from __future__ import annotations

import gzip
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_TEST_SHARE = 5  # every fifth picture is for testing
_CLASSES = 10


@dataclass
class Digits:
    """Pictures of 8 x 8 as rows of 64 numbers from 0 to 1, and which digit each shows."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load_digits() -> Digits:
    """Read the data set that scikit-learn brings, without importing scikit-learn (saves 100 MiB)."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise SystemExit("scikit-learn is not installed: its digits are what this trains on")
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(path, "rt", encoding="ascii") as file:
        text = file.read()
    table = np.array(text.replace("\n", ",").rstrip(",").split(","), dtype=np.float32)
    table = table.reshape(-1, 65)
    pictures, digits = table[:, :64] / 16.0, table[:, 64].astype(np.int64)
    is_test = np.arange(len(table)) % _TEST_SHARE == 0
    return Digits(pictures[~is_test], digits[~is_test], pictures[is_test], digits[is_test])


class Classifier:
    """One hidden layer, trained by stochastic gradient descent."""

    def __init__(self, *, hidden: int = 64, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        self.weights = {
            "w1": (rng.standard_normal((64, hidden)) * 0.1).astype(np.float32),
            "b1": np.zeros(hidden, dtype=np.float32),
            "w2": (rng.standard_normal((hidden, _CLASSES)) * 0.1).astype(np.float32),
            "b2": np.zeros(_CLASSES, dtype=np.float32),
        }

    def step(self, x: np.ndarray, y: np.ndarray, *, rate: float) -> float:
        """Learn from a batch and return its mean loss before that."""
        w = self.weights
        hidden, chances = self._forward(x)
        rows = np.arange(len(y))
        loss = float(-np.log(chances[rows, y] + 1e-9).mean())
        error = chances
        error[rows, y] -= 1.0
        error /= len(y)
        back = (error @ w["w2"].T) * (hidden > 0)
        w["w2"] -= rate * (hidden.T @ error)
        w["b2"] -= rate * error.sum(axis=0)
        w["w1"] -= rate * (x.T @ back)
        w["b1"] -= rate * back.sum(axis=0)
        return loss

    def accuracy(self, x: np.ndarray, y: np.ndarray) -> float:
        """Return the part of pictures whose digit is recognised."""
        return float((self._forward(x)[1].argmax(axis=1) == y).mean())

    def dump(self, **facts: float) -> bytes:
        """Return weights and facts as bytes."""
        buffer = io.BytesIO()
        np.savez(buffer, **self.weights, **{name: np.array(v) for name, v in facts.items()})
        return buffer.getvalue()

    def restore(self, payload: bytes) -> dict[str, float]:
        """Take weights from bytes, and return the facts that lie beside them."""
        with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
            self.weights = {name: stored[name] for name in self.weights}
            return {n: stored[n].item() for n in stored.files if n not in self.weights}

    def _forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w = self.weights
        hidden = np.maximum(x @ w["w1"] + w["b1"], 0.0)
        scores = hidden @ w["w2"] + w["b2"]
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        return hidden, chances
