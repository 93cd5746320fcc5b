"""What ``manage.py bench NAME`` measures, one module a name."""
