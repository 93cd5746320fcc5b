"""Schema of the scheduler."""
