"""The shortest training that loses nothing: it finds a root by small steps, saves, leaves, and goes on.

``tidegate_training.py`` beside it is a link to ``tidegate/training.py`` of the client.
"""

import json
import time

from tidegate_training import Run, checkpoint, write_whole

EPOCHS, EPOCH_S = 600, 0.5
FILE = checkpoint("short.json")
state = {"epoch": 0, "guess": 9.0}


def save(epoch: int) -> dict:
    """Write what a resume needs, and tell the best value with it."""
    state["epoch"] = epoch
    write_whole(FILE, json.dumps(state).encode())
    return {"best": state["guess"]}


def resume() -> dict | None:
    """Take up what was saved last."""
    if not FILE.exists():
        return None
    state.update(json.loads(FILE.read_bytes()))
    return {"epoch": state["epoch"], "best": state["guess"]}


with Run() as run:
    for _epoch in run.epochs(EPOCHS, resume=resume, save=save):
        state["guess"] -= (state["guess"] ** 2 - 2) / (40 * state["guess"])
        run.report(loss=abs(state["guess"] ** 2 - 2))
        time.sleep(EPOCH_S)
