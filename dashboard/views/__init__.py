"""Pages: each view translates a request, makes one call into queries or operations, and answers."""
