"""The pure core: decide(snapshot) -> Plan. Standard library only; no clock, no float, no log."""
