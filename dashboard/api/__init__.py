"""The REST API under /api/v1: each endpoint is one call into operations or queries."""
