"""Work on other machines: without Ray, and on a real cluster of three nodes on the loopback."""
