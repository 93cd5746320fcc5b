"""The command line client against a real server."""
