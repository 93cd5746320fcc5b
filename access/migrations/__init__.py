"""Schema of access."""
