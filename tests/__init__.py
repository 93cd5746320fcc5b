"""Tests, which tell the article."""
