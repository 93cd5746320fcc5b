"""Faults at random under load, and what must hold afterwards: ``manage.py faults``."""
