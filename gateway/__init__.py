"""The inference gateway: one address for all models."""
