"""Reads: frozen rows, each limited to what the caller may see."""
