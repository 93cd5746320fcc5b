"""The article's verifications on the running product: real work, a scratch pool, read from outside.

Each verification is one module named after its number; ``registry.py`` lists them.
"""
