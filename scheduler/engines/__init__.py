"""How replicas run. No framework in here."""
