"""The REST API: what it does, who may, and that it keeps to its own document."""
