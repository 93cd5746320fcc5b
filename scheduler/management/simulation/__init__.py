"""Simulated time: work that comes and ends by a list, decided by the core, with nothing run."""
