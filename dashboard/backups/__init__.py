"""Backup and restore of all that an installation keeps: database, keys, settings, data, work."""
