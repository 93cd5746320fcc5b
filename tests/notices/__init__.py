"""Tests of what people are told: real mail server, real receivers."""
