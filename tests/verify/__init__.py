"""Tests of the verifications: that they pass, and that each fails where its rule is switched off."""
