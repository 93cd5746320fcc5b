"""Tests of what the benchmarks and simulations play, on small extracts of the traces."""
