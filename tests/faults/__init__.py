"""The fault run: what it draws, how it would notice, and a short one for real."""
