"""Work on other machines: Ray carries the calls, one agent a node carries them out."""
