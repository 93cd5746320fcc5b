"""The product: the hierarchy, the core, the tick, the engines."""
