"""Tests of pages, live updates and words."""
