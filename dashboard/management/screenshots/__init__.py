"""Pictures of every page: a product of its own, a story on it, a browser, the pages."""
