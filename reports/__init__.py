"""The read side of the ledger."""
