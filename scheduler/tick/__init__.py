"""One tick: observe, load, decide, apply, converge, publish."""
