"""The whole product, with its processes killed one after the other."""
