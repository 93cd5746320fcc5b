"""Set-up and start of the product, on the standard library alone: packages may not be there yet."""
