"""Benchmarks that need more than the scheduler."""
