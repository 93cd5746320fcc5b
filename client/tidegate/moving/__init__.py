"""Files of other systems, read into submissions and quota files; no server is asked here."""
