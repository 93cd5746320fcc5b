"""Composition root and browser pages."""
