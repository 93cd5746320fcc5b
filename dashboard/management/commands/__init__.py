"""Management commands of the installation as a whole."""
