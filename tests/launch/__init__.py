"""Set-up and start of the product."""
