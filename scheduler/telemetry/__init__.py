"""What is measured. No framework in here."""
