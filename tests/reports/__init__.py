"""Reports over ledgers that the tests write row by row."""
